from __future__ import annotations

from reports.markdown import interval, spread, table, thousands
from reports.statistics import Estimate, estimate


def test_a_table_is_padded_so_that_it_reads_as_text() -> None:
    assert table(["arm", "value"], [["static_2", "1"], ["sagc", "12.50"]]) == (
        "| arm      | value |\n| -------- | ----: |\n| static_2 |     1 |\n| sagc     | 12.50 |\n"
    )


def test_a_cell_cannot_break_its_table() -> None:
    text = table(["run", "reason"], [["a", "x | y\nz"]], left=2)
    assert text.splitlines()[-1] == "| a   | x \\| y z |"


def test_no_rows_are_said() -> None:
    assert table(["arm"], []) == "(none)\n"


def test_spread_needs_two_values() -> None:
    assert spread([1.0, 2.0, 3.0], 1) == "2.0 (1.0)"
    assert spread([1.0], 1) == "1.0"
    assert spread([]) == "-"


def test_an_interval_is_written_with_its_sign_where_it_is_a_difference() -> None:
    found = Estimate(label="", value=0.0123, low=-0.1, high=0.2, n=3)
    assert interval(found) == "+0.012 [-0.100, +0.200]"
    assert interval(found, digits=2, signed=False) == "0.01 [-0.10, 0.20]"
    assert interval(estimate("", [0.5])) == "+0.500 (no interval)"


def test_whole_numbers_have_separators() -> None:
    assert thousands(6144.0) == "6,144"

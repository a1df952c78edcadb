from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engines.verl.events import EventReader, EventWriter


def test_events_are_read_as_they_come_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    reader = EventReader(path)
    assert list(reader.new()) == []
    writer = EventWriter(path)
    writer.write("started", step=0)
    assert list(reader.new()) == [{"kind": "started", "step": 0}]
    writer.write("step", record={"step": 1})
    writer.write("ended", status="finished", reason="")
    assert [event["kind"] for event in reader.new()] == ["step", "ended"]
    assert list(reader.new()) == []
    writer.close()


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"kind": "started"}\n{"kind": "st')
    reader = EventReader(path)
    assert [event["kind"] for event in reader.new()] == ["started"]
    with path.open("a") as file:
        file.write('ep"}\n')
    assert [event["kind"] for event in reader.new()] == ["step"]


def test_a_number_that_json_does_not_have_is_refused_where_it_is_written(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "events.jsonl")
    with pytest.raises(ValueError, match="Out of range float"):
        writer.write("step", loss=float("nan"))
    writer.close()

"""The report's plain words: how to read it, and what each verdict against a claim means."""

from __future__ import annotations

from collections.abc import Sequence

from reports.claims import CLAIMS
from reports.verdict_tables import SHORT, place, written
from reports.verdicts import Verdict

CONTRADICTED = {
    "C1": "At this budget a large static group does not cost half as much again as SAGC. Cost follows the number "
    "of rollouts: where both arms have spent the same rollouts or tokens, little is left of a ratio.",
    "C2a": "The largest static group is better than SAGC by more than the margin: its quality gain is not marginal.",
    "C2b": "Some static group size, picked without looking at the seed it is tested on, beats SAGC by more than the "
    "margin.",
    "C2c": "SAGC's lead over the best static is smaller under DAPO than under GRPO.",
    "C3": "SAGC's outputs are longer than those of a static arm.",
    "C4": "The straggler rate of SAGC lies above its budget by more than the margin although the price was at work.",
    "C5": "The same group sizes in random order did better: when to use which size was worth less than nothing.",
    "C6": "SAGC's steps idle more than those of the largest static group, measured in rollout slots.",
}
INCONCLUSIVE = {
    "C1": "The interval holds ratios on both sides of the margin: more seeds would be needed.",
    "C2a": "The seeds allow both a marginal and a real gain of the largest static group.",
    "C2b": "The seeds allow both that SAGC matches the best static arm and that it falls behind it.",
    "C2c": "The seeds do not tell whether SAGC's lead differs between DAPO and GRPO.",
    "C3": "It is not shown that SAGC's outputs are shorter than those of both static arms.",
    "C4": "The seeds allow a rate within and above the margin over the budget.",
    "C5": "No value of adapting is shown over using the same sizes in random order.",
    "C6": "The seeds do not tell whether SAGC idles less than the largest static group.",
}
MEANING = {"contradicted": CONTRADICTED, "inconclusive": INCONCLUSIVE}

HOW_TO_READ = (
    "**Verdicts.** A claim is *supported* if its whole 95 % interval lies on the claimed side of the margin, "
    "*contradicted* if it lies wholly on the other side, *inconclusive* in between, and *not decidable* where a run "
    "is missing, did not finish, or a budget lies outside what was run. Nothing is extrapolated and no run is left "
    "out.",
    "**Few seeds.** Intervals are Student t on seed-paired differences (log ratios for costs). With 3 seeds t is "
    "4.30, so an interval is 2.5 standard deviations of the differences to each side: a verdict of inconclusive "
    "often means 3 seeds, not no effect. Many verdicts stand side by side; at 95 % one in twenty true zeros would "
    "leave its interval.",
    "**Accuracy** is the mean over all samples of all held-out problems (avg@k for k samples a problem), at "
    "temperature 1. It is never the best of the k.",
    "**SE by problem** says how well the evaluation problems pin the same number down, each problem averaged over "
    "seeds. It does not contain the spread between training seeds and decides nothing.",
    "**Matched budgets.** Prompts and rollouts are those of the horizon; tokens, modelled time and CPU time are what "
    "the cheapest finished arm of the same seed reached. Two arms are compared on the problems that both were "
    "evaluated on; the tables of single arms average what each arm has, so their differences can deviate from the "
    "claims in the third decimal.",
    "**C1 follows rollouts.** At matched prompts an arm with a larger G draws more rollouts, so it costs more by "
    "arithmetic. At matched rollouts that is gone.",
    "**A larger G does not lengthen the barrier at fixed rollouts.** A step waits for the longest of all its "
    "rollouts, and with a constant number of rollouts that does not depend on how they are grouped. A lower "
    "straggler rate is therefore not a shorter step.",
    "**The straggler rate grows with G by itself**, because the longest of more rollouts is longer. Static 2 has "
    "rate 0 by arithmetic at a threshold of 2: the longer of two lengths is below twice their mean. It is an arm, "
    "never a candidate.",
    "**Outputs get shorter with the number of updates**, whoever chooses G. An arm that updates more often at "
    "matched prompts writes shorter outputs; matched updates take that away.",
    "**DAPO's soft overlong penalty is a length penalty**, so C3 is decided under GRPO only; the lengths under DAPO "
    "are shown.",
    "**Rates are averaged over steps**, as the budget is. The average over groups is lower when large groups, of "
    "which a step has few, straggle more.",
    "**The price identity** says that the price was computed from the observed rate. It says nothing about whether "
    "the budget was held; C4 is decided from the rate.",
    "**Modelled time** is free of noise and the same on every machine, for a model of one sampler on one core. "
    "Measured CPU time carries the load of the machine, 20 % and more; it stands beside and decides nothing.",
    "**Shuffled SAGC** replays SAGC's own group sizes in random order. What SAGC has over it is the worth of "
    "choosing *when*; what both have over a static arm is the worth of the sizes.",
    "**C2b's interval is not exact**: the static arm is chosen by data. Its coverage is measured by simulation with "
    "the observed spread and stands in the notes.",
    "**Hindsight rows** are chosen by someone who has seen the results, so they are too good; they decide nothing.",
    "**The controller is a reference reading** of a source that does not publish its equations or numbers: a "
    "contradicted claim is about this reading on this task.",
)


def how_to_read() -> str:
    """The known traps, one a line."""
    return "".join(f"- {text}\n" for text in HOW_TO_READ)


def against_the_method(verdicts: Sequence[Verdict]) -> str:
    """Every contradicted or inconclusive claim with its numbers and what it means."""
    engines = len({verdict.engine for verdict in verdicts})
    parts = []
    for word, meaning in MEANING.items():
        for claim, row in CLAIMS.items():
            found = [verdict for verdict in verdicts if (verdict.claim, verdict.verdict) == (claim, word)]
            if not found:
                continue
            lines = [
                f"  - {place(verdict, engines)}, {SHORT[verdict.axis]}: {each.label} "
                f"{written(claim, each)}, n = {each.n}, margin {verdict.margin:g}\n"
                for verdict in found
                for each in verdict.estimates
            ]
            parts.append(f"- **{claim} {word}** ({row.title}). {meaning[claim]}\n{''.join(lines)}")
    if not any(verdict.estimates for verdict in verdicts):
        return "Nothing was decided, neither for nor against: see the reasons above.\n"
    if not parts:
        return "Nothing: no decided claim is contradicted or inconclusive.\n"
    return "".join(parts)

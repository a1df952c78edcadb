r"""Evaluation on AIME 2023 to 2025, AMC 2023 and GPQA Diamond, scored so that nobody has to doubt it.

    sets, problems, tables, hub, lock, toy    what is asked, from where, and the checks that it is what its name says
    prompts, protocols, samplers              how it is asked: tokens, settings, seeds, and the engines that answer
    run, generations                          which completions there are to be, and the file that holds them
    scoring, rules, extraction, integers,     whether an output is right: `scoring.score` is the one function, for
    symbolic, pool, worker                    evaluation and for the training reward
    metrics, results, compare, display        numbers with their uncertainties
    cli                                       `evaluate`, `rescore`, `compare`, `sets`

Decided here, since harnesses differ:

- The last box after the last ``</think>`` is the answer. No box, an empty or an unterminated one is no answer.
- A complete box counts even if the output was cut off later; truncation is reported beside the score.
- No answer, a time-out and an error are wrong and stay in n; each has a rate of its own.
- A percentage never equals an integer gold; ``70 \pmod{1000}`` is 70; ``1000110_2`` is 70.
- The options of a problem keep one order for all samples of a run, so that letters can vote.

To add a set: a row in `sets.SETS`, with a loader of its own if it is no table. An answer format of its own is a row in
`rules.ANSWER_TYPES`, a wording of its own one in `prompts.PROMPTS`.
"""

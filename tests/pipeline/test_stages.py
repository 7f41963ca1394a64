"""The list of stages of a run: each stage declares the results that it needs and the result that it
makes."""

from __future__ import annotations

import inspect

from sanitize.pipeline.run import list_stages


def test_task_parameters_equal_the_declared_needs() -> None:
    for stage in list_stages():
        state, *parameters = inspect.signature(stage.task).parameters
        assert (state, tuple(parameters)) == ("state", stage.needs), stage.name


def test_a_stage_needs_only_results_of_earlier_stages() -> None:
    available_results = {"index_counts"}
    for stage in list_stages():
        assert set(stage.needs) <= available_results and stage.makes not in available_results, (
            stage.name
        )
        available_results.add(stage.makes)


def test_every_result_but_the_last_is_needed_by_a_later_stage() -> None:
    stages = list_stages()
    needed = {name for stage in stages for name in stage.needs}
    assert {stage.makes for stage in stages} - needed == {stages[-1].makes}

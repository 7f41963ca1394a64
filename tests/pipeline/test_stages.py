"""The list of stages of a run says what each stage needs and makes."""

from __future__ import annotations

import inspect

from sanitize.pipeline.run import list_stages


def test_a_stage_takes_what_the_list_says() -> None:
    for stage in list_stages():
        state, *parameters = inspect.signature(stage.task).parameters
        assert (state, tuple(parameters)) == ("state", stage.needs), stage.name


def test_a_stage_needs_only_what_earlier_stages_made() -> None:
    made = {"index_counts"}
    for stage in list_stages():
        assert set(stage.needs) <= made and stage.makes not in made, stage.name
        made.add(stage.makes)


def test_every_result_but_the_last_is_needed_by_a_later_stage() -> None:
    stages = list_stages()
    needed = {name for stage in stages for name in stage.needs}
    assert {stage.makes for stage in stages} - needed == {stages[-1].makes}

from typing import get_args, get_type_hints

from ilbrl.cli import demo
from ilbrl.study.study import Study


def test_every_demo_has_a_preset_of_its_task_and_a_story():
    assert tuple(demo.PRESETS) == tuple(demo.DATA) == get_args(get_type_hints(demo.DemoOptions)["task"])
    for task, preset in demo.PRESETS.items():
        study = Study.load(preset)
        assert study.task == task
        assert demo.DATA[task].count({2: "two", 3: "three"}[study.data.expert_episodes or 0]) == 1  # as the story says

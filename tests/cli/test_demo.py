from typing import get_args, get_type_hints

from ilbrl.cli import demo
from ilbrl.study.study import Study


def test_every_demo_has_a_preset_of_its_task_and_a_story():
    assert tuple(demo.PRESETS) == tuple(demo.DATA) == get_args(get_type_hints(demo.DemoOptions)["task"])
    for task, preset in demo.PRESETS.items():
        study = Study.load(preset)
        assert (study.task, study.data.expert_episodes) == (task, 3)  # as the stories say
        assert demo.DATA[task].count("three") == 1

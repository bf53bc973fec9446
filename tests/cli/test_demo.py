from ilbrl.cli import demo
from ilbrl.study.study import Study


def test_every_demo_has_a_preset_of_its_task_and_a_story():
    assert demo.PRESETS.keys() == demo.DATA.keys()
    for task, preset in demo.PRESETS.items():
        study = Study.load(preset)
        assert (study.task, study.data.expert_episodes) == (task, 3)  # as the stories say
        assert demo.DATA[task].count("three") == 1

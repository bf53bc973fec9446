"""The presets `paper…` are what the paper states: its tables of final hyper-parameters, and TD3-BC's defaults.

What the paper does not state is the code's behind it (SMODICE's authors'), or off: every field is here.
"""

from dataclasses import asdict

import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.data import Dataset
from ilbrl.rewards.ends import settled

NETWORK = {"hidden": (256, 256), "dtype": "float32"}
NATURAL_BATCHES = {"expert_share": 0.0, "expert_odds": 1.0}  # all rows of D_E ∪ D_X are drawn alike
FALLS = {"ends": "failure"}  # what `auto` comes to on the paper's tasks: nothing is earned after a terminal
TD3BC = {
    "gamma": 0.99, "tau": 0.005, "policy_noise": 0.2, "noise_clip": 0.5, "policy_delay": 2, "critics": 2,
    "reward_bounds": None, "layer_norm": False, "actor_layer_norm": False, "normalise_weights": False,
    "critic_penalty": None, "deploy_lam": None, "actor_average": None,
}  # fmt: skip
ILBRL = {
    **NETWORK, **NATURAL_BATCHES, **FALLS, **TD3BC, "batch_size": 256,
    "reward_shape": "root", "reward_on": "step", "action_distance": None,  # 1 − √(d / d_max), d between (s, a)
    "weight_horizon": 0, "agreement": 0.0,  # the weight is r_I alone
}  # fmt: skip
DISCRIMINATOR = {
    "reward": "logit", "discriminator_loss": "logistic", "gradient_penalty": 10.0, "discriminator_passes": 1000,
    "state_only": False, "positive_share": 0.5,
}  # fmt: skip
SMODICE = {
    **NETWORK, **NATURAL_BATCHES, **FALLS, **DISCRIMINATOR, "batch_size": 512, "gamma": 0.99, "divergence": "kl",
    "value_lr": 3e-4, "entropy_lr": 3e-4, "weight_decay": 1e-4, "absorbing_reward": None,
}  # fmt: skip
ORIL = {
    **NETWORK, **NATURAL_BATCHES, **FALLS, **TD3BC, **DISCRIMINATOR, "batch_size": 512, "lam": 2.5, "critic_lr": 3e-4,
}  # fmt: skip
BC = {**NETWORK, "batch_size": 256, "held_out_percent": 0, "smoothing": 0.01}  # smoothing: of what is held out


def ilbrl(lam, critic_lr, actor_lr):
    return {**ILBRL, "lam": lam, "critic_lr": critic_lr, "actor_lr": actor_lr}


def learned(fixed, reward_scale, discriminator_lr, actor_lr):
    return {**fixed, "reward_scale": reward_scale, "discriminator_lr": discriminator_lr, "actor_lr": actor_lr}


OF_THREE_TASKS = ilbrl(3.780707811143581, 3.193621317706127e-5, 3.4187343220724746e-5)
OF_HOPPER = ilbrl(1.9898232924151003, 6.308344747206642e-5, 4.279938571320915e-5)
STATED = {
    "ilbrl": {"paper": OF_THREE_TASKS, "paper-hopper": OF_HOPPER},
    "ilbrl-unweighted": {"paper": OF_THREE_TASKS, "paper-hopper": OF_HOPPER},
    "bc": {
        "paper-hopper": {**BC, "lr": 0.01463435996151319},
        "paper-halfcheetah": {**BC, "lr": 0.017457140313552756},
        "paper-walker2d": {**BC, "lr": 0.01463435996151319},
        "paper-ant": {**BC, "lr": 0.005028663892514822},
    },
    "smodice": {
        "paper-hopper": learned(SMODICE, 0.132485274367925, 0.0004279938571320915, 6.308344747206642e-5),
        "paper-halfcheetah": learned(SMODICE, 0.09806293680143131, 0.0006509491094594771, 8.59713615304861e-5),
        "paper-walker2d": learned(SMODICE, 0.17006151306334566, 0.00012462906034979525, 1.3235001285067025e-5),
        "paper-ant": learned(SMODICE, 0.15584724849066423, 0.0008741470800027616, 3.9755828061032105e-5),
    },
    "oril": {"paper": learned(ORIL, 0.1, 0.0006509491094594771, 8.59713615304861e-5)},
}


@pytest.mark.parametrize("agent", AGENTS)
def test_the_papers_presets_to_the_digit(agent):
    rows, ends = np.zeros((20, 1)), np.arange(20) == 19
    walking = Dataset(rows, rows, rows, ~ends & False, ends)  # a good walker times out
    presets = {name: config for name, config in AGENTS[agent].presets.items() if name.startswith("paper")}
    found = {name: asdict(settled(config, walking, walking)) for name, config in presets.items()}
    assert found == STATED.get(agent, {})

"""What an imitator is rewarded for, one file each; what a file calls REWARD can be part of any agent."""

from ilbrl.rewards.labels import LOGGED, Labels, Logits, Reward, Rewarded

__all__ = ["LOGGED", "Labels", "Logits", "Reward", "Rewarded"]

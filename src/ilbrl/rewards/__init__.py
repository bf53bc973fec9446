"""What an imitator is rewarded for, one file each; what a file calls REWARD can be part of any agent."""

from ilbrl.rewards.labels import LOGGED, Labelling, Labels, Logits, Reward, Rewarded

__all__ = ["LOGGED", "Labelling", "Labels", "Logits", "Reward", "Rewarded"]

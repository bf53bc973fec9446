"""An independent version of the solvers in float64 NumPy: flat parameter vectors, finite differences, Adam by hand."""

import itertools

import jax
import numpy as np

HIDDEN = (8, 8)


def sizes(fan_in, fan_out):
    dims = [fan_in, *HIDDEN, fan_out]
    return list(itertools.pairwise(dims))


def mlp(vector, x, shapes):
    start = 0
    for i, (fan_in, fan_out) in enumerate(shapes):
        w = vector[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        start += fan_in * fan_out
        x = x @ w + vector[start : start + fan_out]
        start += fan_out
        x = np.maximum(x, 0) if i < len(shapes) - 1 else x
    return x


def flat(layers):
    parts = [np.concatenate([np.ravel(layer["w"]), np.ravel(layer["b"])]) for layer in layers]
    return np.concatenate(parts).astype(np.float64)


def gradient(loss, vector, h=1e-6):
    steps = np.eye(len(vector)) * h
    return np.array([(loss(vector + step) - loss(vector - step)) / (2 * h) for step in steps])


class Adam:
    def __init__(self, vector):
        self.x, self.m, self.v, self.t = vector, 0.0, 0.0, 0

    def descend(self, g, lr):
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        self.x = self.x - lr * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)


class Independent:
    """TD3-BC; what depends on the kind of actions comes first."""

    def __init__(self, state, cfg, obs, act):
        self.cfg, self.shapes = cfg, self.network_shapes(obs, act)
        self.actor, self.second = Adam(flat(state.actor.params)), Adam(flat(state.actor.params))
        self.critics = [Adam(flat(jax.tree.map(lambda x, i=i: x[i], state.critic.params))) for i in range(cfg.critics)]
        self.target_actor, self.target_critics = self.actor.x, [c.x for c in self.critics]
        self.average = self.actor.x

    def network_shapes(self, obs, act):
        return {"actor": sizes(obs, act), "critic": sizes(obs + act, 1)}

    def pi(self, vector, obs):
        return np.tanh(mlp(vector, obs, self.shapes["actor"]))

    def q(self, vector, obs, act):
        return mlp(vector, np.hstack([obs, act]), self.shapes["critic"])[:, 0]

    def value(self, critic, actor, obs):
        """[B] what the critic says of the actor."""
        return self.q(critic, obs, self.pi(actor, obs))

    def cloning(self, actor, b):
        """[B] unweighted."""
        return np.mean((self.pi(actor, b.observations) - b.actions) ** 2, 1)

    def next_values(self, b, noise):
        """[B] value of s′ in the target."""
        act = np.clip(self.pi(self.target_actor, b.next_observations) + np.clip(0.2 * noise, -0.5, 0.5), -1, 1)
        values = np.min([self.q(t, b.next_observations, act) for t in self.target_critics], axis=0)
        penalty = self.cfg.critic_penalty or 0.0
        return values - penalty * b.next_known * np.sum((act - b.next_actions) ** 2, 1)

    def target_rate(self):
        return self.cfg.tau

    # --- the same for all kinds ---

    def actor_loss(self, x, b, lam, scale):
        w = b.weights / b.weights.mean() if self.cfg.normalise_weights else b.weights
        return np.mean(w * self.cloning(x, b)) - lam * self.value(self.critics[0].x, x, b.observations).mean() / scale

    def scale(self, actor, b):
        return np.abs(self.value(self.critics[0].x, actor, b.observations)).mean()

    def improve(self, actor, b, lam):
        scale = self.scale(actor.x, b)
        actor.descend(gradient(lambda x: self.actor_loss(x, b, lam, scale), actor.x), self.cfg.actor_lr)

    def step(self, b, noise, move_actor):
        cfg = self.cfg
        y = b.rewards + cfg.gamma * b.continues * self.next_values(b, noise)
        for critic in self.critics:
            loss = lambda x: np.mean((self.q(x, b.observations, b.actions) - y) ** 2)  # noqa: E731
            critic.descend(gradient(loss, critic.x), cfg.critic_lr)
        if not move_actor:
            return
        self.improve(self.actor, b, cfg.lam)
        if cfg.deploy_lam is not None:
            self.improve(self.second, b, cfg.deploy_lam)
        if cfg.actor_average is not None:
            acting = self.actor.x if cfg.deploy_lam is None else self.second.x
            rate = max(cfg.actor_average, 10 / (self.actor.t + 10))
            self.average = (1 - rate) * self.average + rate * acting
        rate = self.target_rate()
        self.target_actor = (1 - rate) * self.target_actor + rate * self.actor.x
        self.target_critics = [(1 - rate) * t + rate * c.x for t, c in zip(self.target_critics, self.critics)]

    @property
    def deployed(self):
        if self.cfg.actor_average is not None:
            return self.average
        return self.actor.x if self.cfg.deploy_lam is None else self.second.x


def log_softmax(y):
    y = y - y.max(1, keepdims=True)
    return y - np.log(np.exp(y).sum(1, keepdims=True))


class Discrete(Independent):
    """TD3-BC for discrete actions, written as sums over them; `actions` are one-hot."""

    def network_shapes(self, obs, act):
        return {"actor": sizes(obs, act), "critic": sizes(obs, act)}

    def pi(self, vector, obs):
        return np.exp(log_softmax(mlp(vector, obs, self.shapes["actor"])))

    def q(self, vector, obs, act):
        every = mlp(vector, obs, self.shapes["critic"])
        return every[np.arange(len(every)), act.argmax(1)]

    def value(self, critic, actor, obs):
        pi = self.pi(actor, obs)
        one_hot = np.eye(pi.shape[1])
        return sum(pi[:, a] * self.q(critic, obs, np.tile(one_hot[a], (len(obs), 1))) for a in range(pi.shape[1]))

    def cloning(self, actor, b):
        pi = self.pi(actor, b.observations)
        return -np.log(pi[np.arange(len(pi)), b.actions.argmax(1)])

    def next_values(self, b, noise):
        pi, total = self.pi(self.target_actor, b.next_observations), np.zeros(len(b.rewards))
        for a, one_hot in enumerate(np.eye(pi.shape[1])):
            act = np.tile(one_hot, (len(total), 1))
            lowest = np.min([self.q(t, b.next_observations, act) for t in self.target_critics], axis=0)
            apart = np.sum((act - b.next_actions) ** 2, 1)
            total += pi[:, a] * (lowest - (self.cfg.critic_penalty or 0.0) * b.next_known * apart)
        return total

    def scale(self, actor, b):
        values = mlp(self.critics[0].x, b.observations, self.shapes["critic"])
        return 0.3 * np.mean([np.abs(row - row.mean()).mean() for row in values])

    def target_rate(self):
        return max(self.cfg.tau, 300 / (self.actor.t + 300))

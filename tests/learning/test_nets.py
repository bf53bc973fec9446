import jax
import jax.numpy as jnp
import numpy as np

from ilbrl.learning import nets


def test_initial_ranges_are_pytorchs():
    layers = nets.init_mlp(jax.random.key(0), [400, 100, 1])
    for layer, fan_in in zip(layers, (400, 100)):
        for values in layer.values():
            assert np.abs(values).max() <= fan_in**-0.5
    assert np.abs(layers[0]["w"]).max() > 0.99 * 400**-0.5
    assert abs(float(layers[0]["w"].std()) - 400**-0.5 / 3**0.5) < 1e-3


def test_mlp_by_hand():
    layers = (
        {"w": jnp.array([[1.0, -1.0]]), "b": jnp.array([0.0, 1.0])},
        {"w": jnp.array([[2.0], [3.0]]), "b": jnp.array([5.0])},
    )
    np.testing.assert_allclose(nets.mlp(layers, jnp.array([[2.0], [-2.0]])), [[9.0], [14.0]])


def test_layer_norm_has_unit_rows():
    layers = nets.init_mlp(jax.random.key(0), [3, 16, 2], layer_norm=True)
    x = nets.layer_normalised(jnp.arange(12.0).reshape(3, 4) ** 2)
    np.testing.assert_allclose(x.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(-1), 1, rtol=1e-4)
    scaled = jax.tree.map(lambda w: 100 * w, layers[0]["w"])
    there = nets.mlp(({**layers[0], "w": scaled, "b": 100 * layers[0]["b"]}, layers[1]), jnp.ones((1, 3)))
    np.testing.assert_allclose(there, nets.mlp(layers, jnp.ones((1, 3))), rtol=1e-3)  # its scale no longer matters


def test_twins_are_two_different_critics():
    twins = nets.init_critics(jax.random.key(0), [5, 8, 1])
    obs, act = jnp.ones((4, 3)), jnp.ones((4, 2))
    values = nets.critics(twins, obs, act)
    assert values.shape == (2, 4)
    for i in range(2):
        one = jax.tree.map(lambda x, i=i: x[i], twins)
        np.testing.assert_allclose(values[i], nets.mlp(one, jnp.ones((4, 5)))[:, 0], rtol=1e-5)
    assert not np.allclose(values[0], values[1])
    np.testing.assert_allclose(nets.first_critic(twins, obs, act), values[0], rtol=1e-5)
    gradients = jax.grad(lambda twins, act: nets.first_critic(twins, obs, act).sum(), (0, 1))(twins, act)
    assert not any(map(np.any, jax.tree.leaves(gradients[0])))
    assert np.any(gradients[1])


def test_adam_steps_by_hand():
    """Two steps with gradients 1 and 3: m̂ and v̂ by Kingma & Ba's formulas."""
    net = nets.optimised({"w": jnp.array(1.0)})
    net = nets.descend(net, {"w": jnp.array(1.0)}, 0.1)
    np.testing.assert_allclose(net.params["w"], 1 - 0.1, rtol=1e-4)  # 1 − 0.999¹ in float32, which a GPU rounds
    net = nets.descend(net, {"w": jnp.array(3.0)}, 0.1)
    m = (0.1 * 0.9 * 1 + 0.1 * 3) / (1 - 0.9**2)
    v = (0.001 * 0.999 * 1 + 0.001 * 9) / (1 - 0.999**2)
    np.testing.assert_allclose(net.params["w"], 0.9 - 0.1 * m / (v**0.5 + 1e-8), rtol=1e-4)


def test_polyak():
    np.testing.assert_allclose(nets.polyak(jnp.array(1.0), jnp.array(3.0), 0.25), 1.5)


def test_parameters_that_overflow_are_not_sound():
    nets_of_two = jax.vmap(lambda key: nets.optimised(nets.init_mlp(key, [3, 4, 1])))(
        jax.random.split(jax.random.key(0))
    )
    host = jax.tree.map(np.array, nets_of_two)
    assert nets.is_sound(host).tolist() == [True, True]
    host.params[0]["w"][1, 0, 0] = 1e30
    assert nets.is_sound(host).tolist() == [True, False]
    host.params[0]["w"][0, 0, 0] = np.nan
    assert nets.is_sound(host).tolist() == [False, False]

"""Kinds of a compiled program's operations, and sums of PyTorch's."""

import jax
import jax.numpy as jnp

from benchmarks.operation_profile import kinds_of_operations, their_kinds


def test_products_inside_of_loops_have_their_kind():
    def attend(x, kernel):
        def layer(x, _):
            scores = jnp.einsum("bld,bmd->blm", x, x)
            return jnp.tanh(jnp.einsum("blm,bmd->bld", scores, x)) @ kernel, None

        return jax.lax.scan(layer, x, length=3)[0]

    program = jax.jit(attend).lower(jnp.ones((4, 8, 16)), jnp.ones((16, 16))).compile()
    kinds = kinds_of_operations(program.as_text())
    assert set(kinds.values()) == {"weights", "attention", "rest"}
    products = [kind for name, kind in kinds.items() if name.startswith(("dot", "ynn_fusion"))]
    assert "weights" in products
    assert "attention" in products
    assert not any(name.startswith("while") for name in kinds)


def test_what_is_left_of_pytorchs_time_is_between_its_operations():
    spent = {"aten::mm": 2.0, "aten::addmm": 1.0, "aten::bmm": 0.5, "aten::gelu": 0.25}
    assert their_kinds(spent, 4.0) == {"weights": 3.0, "attention": 0.5, "rest": 0.25, "between": 0.25}

"""Which tasks of a mixture are evaluated."""

from t5x_like.evaluation.evaluator import tasks_having


def test_tasks_of_a_mixture_that_lack_the_split_are_left_out() -> None:
    asked = tasks_having("glue_v002_proportional", "validation")
    assert {"glue_cola_v002", "glue_mnli_matched_v002", "glue_mnli_mismatched_v002"} <= set(asked)
    assert not {"glue_ax_v002", "glue_mnli_v002"} & set(asked)
    assert "glue_ax_v002" in tasks_having("glue_v002_proportional", "test")


def test_a_split_that_no_task_has_is_left_to_be_complained_of() -> None:
    assert tasks_having("glue_ax_v002", "train") == ["glue_ax_v002"]

import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.evaluation.submission_checks import check_files
from t5x_like.evaluation.submissions import check_submission, check_test_rows, render, write_submission
from t5x_like.text.benchmarks.suites import SERVED, SUITES, submission_files, suite_of_server


def rows_of(task, number=None):
    """Test rows with an answer each, last first, as a length-sorted evaluation may leave them."""
    (form,) = submission_files([task])
    number = form.rows if number is None else number
    if form.kind == "nested":
        rows = [
            {"idx/paragraph": k // 60, "idx/question": k // 6, "idx/answer": k, "answer": {"value": k % 2}}
            for k in range(number)
        ]
    elif form.kind == "text":
        rows = [
            {"idx/passage": k // 2, "idx/query": k, "answer": {"value": f"entity\t{k}"}}
            for k in range(number)
        ]
    elif form.kind == "number":
        rows = [{"idx": k, "answer": (k % 26) / 5} for k in range(number)]
    else:
        rows = [{"idx": k, "answer": k % len(form.words)} for k in range(number)]
    return [{"prediction": "some", "number": k, **row} for k, row in enumerate(rows)][::-1]


def small(benchmark):
    """All tasks but the two that have most rows."""
    return {form.task: rows_of(form.task) for form in SUITES[benchmark].submission if form.rows < 5000}


@pytest.mark.parametrize("benchmark", ["glue", "super_glue"])
def test_what_is_written_is_what_the_server_takes(tmp_path, benchmark):
    answers = small(benchmark)
    written = write_submission(tmp_path / "out.zip", answers)
    checked = check_submission(tmp_path / "out.zip")
    assert written.benchmark == checked.benchmark == benchmark
    assert checked.errors == ()
    assert set(checked.missing) == {form.file for form in SUITES[benchmark].submission} - set(written.files)
    assert written.missing == checked.missing != ()
    assert written.replaced == {}


def read(path, name):
    with zipfile.ZipFile(path) as archive:
        return archive.read(name).decode()


def test_glue_files_are_tables_in_the_order_of_their_indices(tmp_path):
    path = tmp_path / "glue.zip"
    write_submission(path, small("glue"))
    assert read(path, "CoLA.tsv").startswith("index\tprediction\n0\t0\n1\t1\n2\t0\n")
    assert read(path, "RTE.tsv").startswith("index\tprediction\n0\tentailment\n1\tnot_entailment\n")
    assert read(path, "AX.tsv").startswith("index\tprediction\n0\tentailment\n1\tneutral\n2\tcontradiction\n")
    assert read(path, "STS-B.tsv").startswith("index\tprediction\n0\t0.000\n1\t0.200\n")
    assert read(path, "WNLI.tsv").count("\n") == 147


def test_numbers_may_be_a_heads_or_written(tmp_path):
    (form,) = submission_files(["glue_stsb_v002"])
    rows = [{"idx": 0, "answer": 2.5, "prediction": "2.5"}, {"idx": 1, "answer": 4.75, "prediction": 4.75}]
    assert render(form, rows) == (b"index\tprediction\n0\t2.500\n1\t4.750\n", 0)
    assert render(form, [{"idx": 0, "answer": -1.0, "prediction": "high"}])[1] == 1


def test_super_glue_files_have_an_object_a_line_in_each_tasks_form(tmp_path):
    path = tmp_path / "super_glue.zip"
    answers = small("super_glue") | {
        name: rows_of(name) for name in ("super_glue_multirc_v102", "super_glue_record_v102")
    }
    assert write_submission(path, answers).missing == ()
    first = {
        name: json.loads(read(path, f"{name}.jsonl").splitlines()[0])
        for name in ("BoolQ", "CB", "COPA", "WiC", "WSC", "AX-b", "MultiRC", "ReCoRD")
    }
    assert first["BoolQ"] == first["WiC"] == {"idx": 0, "label": "false"}
    assert first["CB"] == {"idx": 0, "label": "entailment"}
    assert first["COPA"] == {"idx": 0, "label": 0}
    assert first["WSC"] == {"idx": 0, "label": "False"}
    assert first["AX-b"] == {"idx": 0, "label": "entailment"}
    assert first["ReCoRD"] == {"idx": 0, "label": "entity 0"}
    questions = first["MultiRC"]["passage"]["questions"]
    assert (first["MultiRC"]["idx"], len(questions)) == (0, 10)
    assert questions[0] == {"idx": 0, "answers": [{"idx": k, "label": k % 2} for k in range(6)]}


def test_the_same_answers_are_the_same_bytes(tmp_path):
    for name in ("a.zip", "b.zip"):
        write_submission(tmp_path / name, {"glue_wnli_v002": rows_of("glue_wnli_v002")})
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_an_answer_that_is_none_is_replaced_and_counted(tmp_path):
    rows = rows_of("glue_wnli_v002")
    rows[0] = rows[0] | {"answer": -1}
    numbers = rows_of("glue_stsb_v002")
    numbers[0] = numbers[0] | {"answer": float("nan")}
    numbers[1] = numbers[1] | {"answer": 7.5}
    written = write_submission(tmp_path / "a.zip", {"glue_wnli_v002": rows, "glue_stsb_v002": numbers})
    assert written.replaced == {"WNLI.tsv": 1, "STS-B.tsv": 2}
    assert read(tmp_path / "a.zip", "STS-B.tsv").splitlines()[-2:] == ["1377\t5.000", "1378\t0.000"]


def test_two_rows_of_one_record_query_are_one_answer(tmp_path):
    rows = rows_of("super_glue_record_v102")
    write_submission(tmp_path / "a.zip", {"super_glue_record_v102": rows + rows[:5]})
    assert check_submission(tmp_path / "a.zip").errors == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows[:-1],
            r"WNLI.tsv: has 145 answers, the test set 146\n  WNLI.tsv: index missing: 0",
        ),
        (lambda rows: [*rows, rows[3]], "WNLI.tsv: index given more than once: 142"),
        (lambda rows: [rows[0] | {"idx": 146}, *rows[1:]], "WNLI.tsv: no such index: 146"),
        (
            lambda rows: [{"answer": 0, "prediction": "", "number": 7}, *rows[1:]],
            r"row 7 has no number \(idx\)",
        ),
    ],
)
def test_rows_missing_or_twice_are_refused_and_nothing_is_written(tmp_path, change, message):
    rows = change(rows_of("glue_wnli_v002"))
    with pytest.raises(ValueError, match=message):
        write_submission(tmp_path / "a.zip", {"glue_wnli_v002": rows})
    assert not (tmp_path / "a.zip").exists()


def test_tasks_of_no_server_or_of_both_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"none of the tasks \['squad'\] is scored by a server; those are: glue_c"
    ):
        write_submission(tmp_path / "a.zip", {"squad": []})
    both = {name: rows_of(name) for name in ("glue_wnli_v002", "super_glue_cb_v102")}
    with pytest.raises(ValueError, match="servers of their own"):
        write_submission(tmp_path / "a.zip", both)


def zipped(path, **files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


WNLI = "".join(["index\tprediction\n", *(f"{k}\t{k % 2}\n" for k in range(146))])


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("WNLI.tsv", WNLI, None),
        ("WNLI.tsv", WNLI.rstrip("\n"), None),
        ("wnli.tsv", WNLI, "wnli.tsv: must be called WNLI.tsv"),
        ("glue/WNLI.tsv", WNLI, "is in a folder; put WNLI.tsv at the top"),
        ("WNLI.tsv", WNLI.replace("index\tprediction\n", ""), "begins with '0\\t0', not with the header"),
        ("WNLI.tsv", WNLI.replace("\n", "\r\n"), "carriage returns"),
        ("WNLI.tsv", "\ufeff" + WNLI, "byte order mark"),
        ("WNLI.tsv", WNLI.replace("\n5\t1\n", "\n5,1\n"), "line 7 is '5,1', not an index and an answer"),
        ("WNLI.tsv", WNLI.replace("\n5\t1\n", "\n5\tyes\n"), "answer that is not 0 or 1: 'yes' in line 7"),
        ("WNLI.tsv", WNLI.replace("\n5\t1\n6\t0\n", "\n6\t0\n5\t1\n"), "not in the order of their indices"),
        ("WNLI.tsv", WNLI.replace("\n5\t", f"\n{'9' * 5000}\t"), "not an index and an answer"),
        ("WNLI.tsv", WNLI.replace("\n5\t", "\n٥\t"), "not an index and an answer"),
        ("WNLI.tsv", WNLI.encode("utf-16"), "is not UTF-8 from line 1 on"),
        (
            "STS-B.tsv",
            WNLI.replace("\n5\t1\n", "\n5\tnan\n"),
            "answer that is not a number from 0 to 5: 'nan'",
        ),
    ],
)
def test_a_table_that_the_server_would_refuse_is_refused_with_the_reason(tmp_path, name, content, error):
    checked = check_submission(zipped(tmp_path / "a.zip", **{name: content}))
    if error is None:
        assert checked.errors == ()
    else:
        assert any(error in result for result in checked.errors), checked.errors


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"idx": 0, "label": true}', "answer that is not false or true: True in line 1"),
        ('{"idx": 0, "label": "True"}', "answer that is not false or true: 'True' in line 1"),
        ('{"idx": "0", "label": "true"}', "idx is '0', not an integer"),
        ('{"idx": 0}', "line 1 is '{\"idx\": 0}', not"),
        ("true", "line 1 is 'true', not"),
        ('{"idx": 0}', "(no 'label')"),
        ("[" * 100_000, "nested deeper than 64 levels"),
    ],
)
def test_a_json_file_that_the_server_would_refuse_is_refused_with_the_reason(line, error):
    result = check_files({"BoolQ.jsonl": line.encode()}).errors
    assert any(error in each for each in result), result


def test_strangers_and_files_that_are_not_zip_are_reported(tmp_path):
    assert (
        check_files({"WNLI.tsv": WNLI.encode(), "notes.txt": b""})
        .errors[0]
        .startswith("notes.txt: is no file of this benchmark, only CoLA.tsv")
    )
    assert check_files({"readme": b""}).errors == ("no file of GLUE or SuperGLUE among readme",)
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="is not a zip file"):
        check_submission(tmp_path / "a.zip")


CB = [{"idx": index, "premise": "It is."} for index in range(250)]
STSB = [{"idx": index} for index in range(1379)]
RECORD = [{"idx": {"passage": 0, "query": index}} for index in range(10_000)]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (
            {"super_glue_cb_v102": CB, "glue_stsb_v002": STSB, "super_glue_record_v102": RECORD, "mine": []},
            "",
        ),
        ({"super_glue_cb_v102": [*CB[:7], *CB[8:]]}, "super_glue_cb_v102: index missing: 7"),
        (
            {"super_glue_cb_v102": [*CB[:7], CB[6], *CB[8:]]},
            "super_glue_cb_v102: index given more than once: 6",
        ),
        ({"super_glue_cb_v102": [*CB, {"idx": 250}]}, "super_glue_cb_v102: no such index: 250"),
        ({"glue_stsb_v002": STSB[:9]}, "glue_stsb_v002: has 9 answers, the test set 1,379"),
        ({"super_glue_record_v102": RECORD[1:]}, "super_glue_record_v102: index missing: 0"),
        ({"super_glue_cb_v102": [*CB[:7], {"premise": "It is."}]}, "has no number .idx. by which a server"),
    ],
)
def test_test_rows_are_looked_at_before_they_are_answered(rows, error):
    if not error:
        check_test_rows(rows)
        return
    with pytest.raises(ValueError, match=error):
        check_test_rows(rows)


def test_answers_are_counted():
    assert check_files({"WNLI.tsv": WNLI.encode(), "CoLA.tsv": b"none"}).answers == {
        "WNLI.tsv": 146,
        "CoLA.tsv": 0,
    }


def test_every_task_has_one_file():
    assert suite_of_server("super_glue_wsc_v102_simple_eval") is SUITES["super_glue"]
    assert suite_of_server("glue_ax_v002") is SUITES["glue"]
    assert suite_of_server("squad_v010_allanswers") is None
    assert submission_files(["squad_v010_allanswers"]) == []
    assert [form.rows for form in SUITES["glue"].submission][-2:] == [146, 1104]
    tasks = [form.task for form in submission_files()]
    assert (
        tasks == list(dict.fromkeys(tasks)) == [task for suite in SERVED.values() for task in suite.all_tasks]
    )


def test_a_file_that_is_in_the_zip_twice_is_reported(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("WNLI.tsv", WNLI)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("WNLI.tsv", WNLI)
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    assert check_submission(tmp_path / "a.zip").errors == ("WNLI.tsv: is in the zip twice",)


@pytest.mark.parametrize(("name", "flag"), [("encrypted", 1), ("of another packing", 0)])
def test_a_zip_that_cannot_be_unpacked_is_reported(tmp_path, name, flag):
    content = bytearray(zip_of({"WNLI.tsv": "index\tprediction\n"}))
    for header, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # its flags; its method follows them
        start = content.find(header) + place
        content[start], content[start + 2] = flag, 8 if flag else 99
    (tmp_path / "bad.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad.zip is not a zip file that can be read: .*(encrypted|method)"):
        check_submission(tmp_path / "bad.zip")


@settings(deadline=None)
@given(place=st.integers(0), bits=st.integers(1, 255), end=st.integers(0))
def test_a_damaged_zip_is_reported_or_read(tmp_path_factory, place, bits, end):
    path = tmp_path_factory.mktemp("damaged") / "bad.zip"
    content = bytearray(
        zip_of({"WNLI.tsv": "index\tprediction\n" + "".join(f"{n}\t1\n" for n in range(146))})
    )
    content[place % len(content)] ^= bits
    path.write_bytes(content[: len(content) - end % 40])
    try:
        check_submission(path)
    except ValueError as error:
        assert "bad.zip is not a zip file that can be read" in str(error)  # noqa: PT017 - it may be read as well


def zip_of(files):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return written.getvalue()

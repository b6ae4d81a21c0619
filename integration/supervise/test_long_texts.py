"""Long texts and a small stack: nothing that rankshim does with a text takes stack for each of its bytes."""

import pytest

from lib.process import clean_environment, last_line, run, shell

STACK = 128 << 10  # bytes; the limit of the workers is what it was


@pytest.mark.attack
@pytest.mark.parametrize(("content", "count"), [("[", 300_000), ("1,", 500_000)], ids=["nested", "many"])
def test_an_error_file_of_many_values_is_read(rankshim, content, count):
    script = f"""printf '{{"message": [' >"$TORCHELASTIC_ERROR_FILE"
        yes '{content}' | head -n {count} | tr -d '\\n' >>"$TORCHELASTIC_ERROR_FILE"
        test $(wc -c <"$TORCHELASTIC_ERROR_FILE") -ge {count * len(content)} && exit 3"""
    argv = ["prlimit", f"--stack={STACK}:", rankshim, "--launcher=native", "--nproc-per-node=1", "--", *shell(script)]
    done = run(argv, clean_environment(), name="rankshim")
    assert done.code == 3, done.transcript()
    assert "exited with code 3" in last_line(done)

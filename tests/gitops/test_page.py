"""The blocks of docs/gitops.md, run with the programs that they are for as far as these are at hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sel import api
from k8sel.jobfile import yamlio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gitops.md").read_text()
BLOCKS: dict[str, str] = dict(re.findall(r"```(?:yaml|sh)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
JOB = (ROOT / "examples" / "ordered-torchrun.yaml").read_text()
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
ARGOCD_VOLUMES = {
    "var-files",
    "plugins",
}  # argoproj/argo-cd manifests/base/repo-server/argocd-repo-server-deployment.yaml


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def laid_out(folder: Path, *names: str) -> None:
    """Files of the page in ``folder``."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(BLOCKS[name])


def built(kustomize: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return run(kustomize, "build", "--enable-alpha-plugins", "--enable-exec", ".", cwd=folder)


def by_kind(text: str) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in yaml.safe_load_all(text)}


def rendered(text: str) -> dict[str, dict[str, Any]]:
    (job,) = api.load(text.encode(), "job.yaml")
    return {item["kind"]: item for item in api.render(api.plan(job))}


def test_every_block_with_a_name_is_known() -> None:
    assert len(BLOCKS) == PAGE.count("```yaml\n") + PAGE.count("```sh\n") == 9


def test_kustomize_patches_the_job_file_and_prints_its_objects(kustomize: Path, tmp_path: Path) -> None:
    laid_out(tmp_path, "kustomization.yaml")
    (tmp_path / "job.yaml").write_text(JOB)
    done = built(kustomize, tmp_path)
    assert done.returncode == 0, done.stderr
    patched = yaml.safe_load(JOB)
    patched["metadata"]["namespace"] = "team-a"
    patched["spec"]["nodes"] = 4
    assert by_kind(done.stdout) == rendered(yamlio.dump([patched]))
    assert built(kustomize, tmp_path).stdout == done.stdout


def test_a_job_file_is_its_own_generator(kustomize: Path, tmp_path: Path) -> None:
    laid_out(tmp_path, "generated/kustomization.yaml", "generated/job.yaml")
    done = built(kustomize, tmp_path / "generated")
    assert done.returncode == 0, done.stderr
    plain = yaml.safe_load(BLOCKS["generated/job.yaml"])
    del plain["metadata"]["annotations"]
    assert by_kind(done.stdout) == rendered(yamlio.dump([plain]))


def test_kustomize_stops_at_an_error_and_shows_it(kustomize: Path, tmp_path: Path) -> None:
    laid_out(tmp_path, "kustomization.yaml")
    (tmp_path / "job.yaml").write_text(JOB.replace("[2, 0]", "[9]"))
    done = built(kustomize, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "AcceleratedJob finetune: spec.accelerator.devices[0]: invalid: count is 3, but device 9 needs a count above 9"
        in done.stderr
    )


def test_the_script_writes_what_render_prints_and_git_sees_what_is_stale(tmp_path: Path) -> None:
    laid_out(tmp_path, "render.sh")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "first.yaml").write_text(JOB)
    check = re.search(r"In CI: `(.*)`", PAGE)
    assert check
    for command in ("git init -q .", "git add .", "sh render.sh", "git add rendered"):
        assert run(*command.split(), cwd=tmp_path).returncode == 0
    assert run("sh", "-c", check[1], cwd=tmp_path).returncode == 0
    assert by_kind((tmp_path / "rendered" / "first.yaml").read_text()) == rendered(JOB)
    (tmp_path / "jobs" / "first.yaml").write_text(JOB.replace("nodes: 2", "nodes: 3"))
    stale = run("sh", "-c", check[1], cwd=tmp_path)
    assert (stale.returncode, "+      replicas: 2" in stale.stdout) == (1, True)
    run("git", "add", ".", cwd=tmp_path)
    assert run("sh", "-c", check[1], cwd=tmp_path).returncode == 0
    (tmp_path / "jobs" / "second.yaml").write_text(JOB.replace("finetune", "second"))
    assert run("sh", "-c", check[1], cwd=tmp_path).returncode == 1


def test_the_plugin_prints_objects_and_nothing_else(tmp_path: Path) -> None:
    plugin = yaml.safe_load(BLOCKS["plugin.yaml"])["spec"]
    (tmp_path / "a.job.yaml").write_text(JOB)
    (tmp_path / "other.yaml").write_text("kind: Pod")
    done = run(*plugin["generate"]["command"], *plugin["generate"]["args"], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert by_kind(done.stdout) == rendered(JOB)
    assert [file.name for file in tmp_path.glob(plugin["discover"]["fileName"])] == ["a.job.yaml"]


def test_the_sidecar_mounts_only_volumes_that_there_are() -> None:
    pod = yaml.safe_load(BLOCKS["repo-server.yaml"])["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    own = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == own | ARGOCD_VOLUMES


@pytest.mark.parametrize("name", ["application.yaml", "flux.yaml"])
def test_both_tools_look_where_the_script_writes(name: str) -> None:
    paths = re.findall(r"\bpath: (\S+)", BLOCKS[name])
    assert [path.removeprefix("./") for path in paths] == ["rendered"]


@pytest.fixture(scope="module")
def hook() -> dict[str, Any]:
    (only,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    found: dict[str, Any] = only
    return found


@pytest.mark.parametrize(
    ("file", "taken"),
    [("job.yaml", True), ("a/job.yml", True), ("a/x.job.yaml", True), ("cronjob.yaml", False), ("job.yaml.md", False)],
)
def test_the_hook_takes_job_files(hook: dict[str, Any], file: str, taken: bool) -> None:
    assert bool(re.search(hook["files"], file)) == taken


def test_the_hook_stops_a_commit_of_a_wrong_file(hook: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "bad.job.yaml").write_text(JOB.replace("[2, 0]", "[9]").replace("finetune", "bad"))
    assert run(*hook["entry"].split(), "job.yaml", cwd=tmp_path).returncode == 0
    done = run(*hook["entry"].split(), "job.yaml", "bad.job.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "bad.job.yaml:15:15: spec.accelerator.devices[0]" in done.stderr


def test_the_page_names_the_hook(hook: dict[str, Any]) -> None:
    (repo,) = yaml.safe_load(BLOCKS[".pre-commit-config.yaml"])["repos"]
    assert [each["id"] for each in repo["hooks"]] == [hook["id"]]

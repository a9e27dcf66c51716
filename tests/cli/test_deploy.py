"""The files in ``deploy/``: what their own linters and schemas say, and that they run commands that there are."""

import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from paceline import load_job
from paceline.cli.main import EXIT_BAD_INPUT, EXIT_REFUSED, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.33", "1.37")  # the oldest that the page names, and the newest that there are schemas of
SCRIPT = DEPLOY / "learners.sbatch"
IMAGE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def found(kind, name):
    """The manifest of this kind and name."""
    (one,) = (one for one in MANIFESTS if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return one


def pod_of(name):
    return found("Job", name)["spec"]["template"]["spec"]


ORCHESTRATOR, LEARNERS = pod_of("paceline-orchestrator"), pod_of("paceline-learners")


def complaints(*command):
    """What a linter from the environment of the tests says; nothing if it is content."""
    linter = shutil.which(command[0], path=str(Path(sys.executable).parent)) or command[0]
    done = subprocess.run([linter, *command[1:]], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_linters_have_nothing_to_say(tmp_path):
    assert complaints("hadolint", DEPLOY / "Dockerfile") == ""
    assert complaints("shellcheck", SCRIPT) == ""
    assert complaints("bash", "-n", SCRIPT) == ""
    worse = tmp_path / "Dockerfile"
    worse.write_text(IMAGE.replace("WORKDIR /source\n", "RUN cd /source\n"))
    assert "DL3003" in complaints("hadolint", worse)


def test_compose_and_manifests_fit_their_schemas():
    schemas = resources.files("check_jsonschema") / "builtin_schemas/vendor"
    jsonschema.validate(COMPOSE, json.loads((schemas / "compose-spec.json").read_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"services": {"it": {"replicas": 4}}}, json.loads((schemas / "compose-spec.json").read_text())
        )
    for manifest, version in itertools.product(MANIFESTS, KUBERNETES):
        kubernetes_validate.validate(manifest, version, strict=True)


def commands():
    """Each command of Paceline that a container runs."""
    yield SERVICES["orchestrator"]["command"]
    learner = SERVICES["learner"]
    assert learner["entrypoint"] == ["sh", "-c", 'exec paceline "$$@" --name "learner-$$HOSTNAME"', "paceline"]
    yield [*learner["command"], "--name", "learner-0a1b2c"]
    yield from (pod["containers"][0]["args"] for pod in (ORCHESTRATOR, LEARNERS))


@pytest.mark.parametrize("command", list(commands()), ids=lambda command: command[0])
def test_containers_run_commands_that_there_are_without_secrets(command):
    context = load(command[0]).make_context(command[0], list(command[1:]))
    assert context.params["token"] is None
    assert context.params["token_file"].is_absolute()
    if command[0] == "serve":
        assert context.params["resume"] and context.params["folder"].is_relative_to("/var/lib/paceline")
    else:
        assert context.params["name"]


def test_the_image_is_made_of_what_the_repository_has_and_does_not_run_as_root():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", IMAGE, re.M) for word in line.split()]
    assert {f"!{path}" for path in copied} == {line for line in ignored if line.startswith("!")}
    assert all((ROOT / path).exists() for path in copied)
    users = re.findall(r"^USER (\d+):(\d+)$", IMAGE, re.M)
    assert users == [("10001", "10001")]
    for pod in (ORCHESTRATOR, LEARNERS):
        assert {pod["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {10001}


@pytest.mark.parametrize("pod", [ORCHESTRATOR, LEARNERS], ids=["orchestrator", "learners"])
def test_what_a_pod_mounts_is_there_and_its_file_system_is_read_only(pod):
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in json.loads(json.dumps(pod["volumes"]))}
    assert mounts.keys() == volumes.keys()
    context = container["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    for name, volume in volumes.items():
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] & 0o007 == 0
            if volume["secret"]["secretName"] == "paceline-token":
                assert "token" in found("Secret", "paceline-token")["stringData"]
        elif "configMap" in volume:
            assert "job.toml" in found("ConfigMap", volume["configMap"]["name"])["data"]
        elif "persistentVolumeClaim" in volume:
            assert found("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
        else:
            assert volume == {"emptyDir": {}}, name
    options = [argument.partition("=")[2] for argument in container["args"]]
    files = [path for path in options if path.startswith("/")]
    assert all(any(path.startswith(mount) for mount in mounts.values()) for path in files)


def test_learners_find_the_orchestrator_and_failures_for_good_are_final():
    service = found("Service", "paceline")["spec"]
    labels = found("Job", "paceline-orchestrator")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    (container,) = ORCHESTRATOR["containers"]
    assert container["ports"][0]["name"] == service["ports"][0]["targetPort"]
    assert LEARNERS["containers"][0]["args"][1] == f"https://paceline:{service['ports'][0]['port']}"
    assert "http://orchestrator:7223" in SERVICES["learner"]["command"]
    for name in ("paceline-orchestrator", "paceline-learners"):
        rules = found("Job", name)["spec"]["podFailurePolicy"]["rules"]
        final = itertools.chain(*(rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule))
        assert set(final) == {EXIT_BAD_INPUT, EXIT_REFUSED}


def test_the_jobs_that_are_deployed_are_jobs(tmp_path):
    (tmp_path / "job.toml").write_text(found("ConfigMap", "paceline-job")["data"]["job.toml"])
    assert load_job(DEPLOY / "job.toml") == load_job(tmp_path / "job.toml")


def test_a_task_of_slurm_joins_under_a_name_of_its_index(served, paceline_in):
    """The body of the script, with Slurm's variables, and ``srun`` replaced by what runs its arguments here."""
    url, run = served("job.toml")
    folder = paceline_in.folder
    (folder / "bin").mkdir()
    for name, text in (("srun", 'exec "$@"'), ("paceline", f'exec {sys.executable} -m paceline "$@"')):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / "bin" / name).chmod(stat.S_IRWXU)
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text("S3cret\n")
    slurm = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_CPUS_PER_TASK": "1", "SLURM_MEM_PER_NODE": "4096"}
    here = {"XDG_STATE_HOME": str(folder / "state"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command, options = ["bash", SCRIPT, url, folder / "token"], {"capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run(command, env={**os.environ, **slurm, **here}, **options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "its name, learner-3, its public key" in done.stdout
    assert "the run is over" in done.stdout
    assert (folder / "state/paceline/learner-3.pem").exists()
    run()
    without = subprocess.run(["bash", SCRIPT], **options)
    assert (without.returncode, "the address that paceline serve prints" in without.stderr) == (1, True)

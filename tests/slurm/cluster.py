"""A Slurm of one node with two pretended GPUs, for tests; everything but its configuration in a temporary folder.

    python tests/slurm/cluster.py start FOLDER
    python tests/slurm/cluster.py stop FOLDER

Slurm's tools find their configuration in /etc/slurm alone, because Snakemake's executor clears SLURM_CONF inside
jobs. So it is made there, if there is none, and removed at the end. A Slurm that is here already is not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ETC = Path("/etc/slurm")
PACKAGED = ("plugstack.conf", "plugstack.conf.d")  # Debian's package puts them there; nobody has configured anything
OURS = "# made by make test-slurm, removed at its end; everything else is in "
GPUS = ("/dev/zero", "/dev/null")  # Slurm counts files; nothing opens them
CPUS = 4  # of the node as Slurm sees it: GPUs, not cores, are what runs short
DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd")

# Two partitions: jobs of `urgent` preempt those of `gpu`, which go back into the queue.
CONF = """{ours}{folder}
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=15
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
MinJobAge=3600
KillWait=5
SchedulerParameters=sched_interval=2,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class Refused(Exception):
    """There is a Slurm here, or what is needed is not."""


def name_of(pid: int | str) -> str | None:
    """Return the name of a running process; None if it has ended, also where nobody waits for it, as in containers."""
    try:
        name, state = re.search(r"\((.*)\) (\S)", Path(f"/proc/{pid}/stat").read_text()).groups()
    except OSError:
        return None
    return None if state == "Z" else name


def processes(*names: str) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if name_of(path.name) in names]


def leftover(etc: Path = ETC) -> Path | None:
    """The folder of a test that could not clean up, if the configuration here is such a test's."""
    conf = etc / "slurm.conf"
    first = conf.read_text().splitlines()[0] if conf.is_file() and conf.stat().st_size else ""
    return Path(first.removeprefix(OURS)) if first.startswith(OURS) else None


def check(etc: Path = ETC) -> None:
    """Refuse where a Slurm is configured or runs, unless it is what an earlier test left."""
    old = leftover(etc)
    if old is not None:
        if _alive(old / "slurmctld.pid"):
            raise Refused(f"another make test-slurm is running, its folder is {old}")
        stop(old, etc)
    if "SLURM_CONF" in os.environ:
        raise Refused(f"SLURM_CONF is {os.environ['SLURM_CONF']}: there is a Slurm here, and it is not touched")
    if etc.exists() and any(path.name not in PACKAGED for path in etc.iterdir()):
        raise Refused(f"{etc} holds a configuration: there is a Slurm here, and it is not touched")
    if processes(*DAEMONS):
        raise Refused("a daemon of Slurm is running here, and it is not touched")


def start(folder: Path, etc: Path = ETC) -> None:
    check(etc)
    if os.geteuid():
        raise Refused("only root can start it: run `make test-slurm` in a container, or as root")
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    _munge(folder / "munge")
    memory = int(re.search(r"RealMemory=(\d+)", _run("slurmd", "-C"))[1])
    host = socket.gethostname().split(".")[0]
    ports = _free_ports(2)
    if not etc.exists():
        (folder / "made-etc").touch()
        etc.mkdir()
    text = CONF.format(
        ours=OURS,
        name=re.sub(r"\W", "", folder.name.lower()),
        folder=folder,
        host=host,
        ports=ports,
        cpus=CPUS,
        memory=memory,
        gpus=len(GPUS),
    )
    (etc / "slurm.conf").write_text(text)
    (etc / "gres.conf").write_text("".join(f"Name=gpu File={path}\n" for path in GPUS))
    _run("slurmctld")
    _run("slurmd")
    for _ in range(60):
        if "idle" in _run("sinfo", "-h", "-o", "%T", check=False):
            return
        time.sleep(0.5)
    logs = "".join((folder / f"{name}.log").read_text()[-2000:] for name in ("slurmctld", "slurmd"))
    raise Refused(f"the node does not come up:\n{logs}")


def stop(folder: Path, etc: Path = ETC) -> None:
    """Cancel every job, end the daemons, and remove what was made; whatever was started of it."""
    if _alive(folder / "slurmctld.pid") and leftover(etc) == folder:
        _run("scancel", "--full", "--user", str(os.geteuid()), check=False)
        for _ in range(40):
            if not _run("squeue", "-h", check=False).strip():
                break
            time.sleep(0.5)
    for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
        _end(folder / name)
    if leftover(etc) == folder:
        if named := re.search(r"^ClusterName=(.+)$", (etc / "slurm.conf").read_text(), re.M):
            _end_strays(named[1])
        for name in ("slurm.conf", "gres.conf"):
            (etc / name).unlink(missing_ok=True)
        if (folder / "made-etc").exists():
            etc.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _end_strays(cluster: str) -> None:
    """Processes of jobs that outlived them: without cgroups, Slurm loses those whose parent was killed first."""
    wanted = f"SLURM_CLUSTER_NAME={cluster}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:  # it has ended, or is not ours to see
            continue


def _munge(folder: Path) -> None:
    """A munge of its own: another key and socket than the system's."""
    folder.chmod(0o711)
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    _run("munged", *(f"--{option}={folder / name}" for option, name in names.items()))


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in taken]
    for server in taken:
        server.close()
    return ports


def _pid(path: Path) -> int | None:
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None


def _alive(path: Path) -> bool:
    """Whether the process of a pid file lives and is one of ours: numbers are used again."""
    pid = _pid(path)
    return pid is not None and name_of(pid) in (*DAEMONS, "munged")


def _end(path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for attempt in range(20):
            if not _alive(path):
                return
            if attempt == 0:
                os.kill(_pid(path), number)
            time.sleep(0.25)


def _run(*command: str, check: bool = True) -> str:
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    made = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})
    if check and made.returncode:
        raise Refused(f"{' '.join(command)}: {made.stderr.strip() or made.stdout.strip()}")
    return made.stdout


if __name__ == "__main__":
    try:
        {"check": lambda _: check(), "start": start, "stop": stop}[sys.argv[1]](Path(sys.argv[2]))
    except Refused as error:
        sys.exit(f"test-slurm: {error}")

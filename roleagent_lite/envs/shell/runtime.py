"""Starting and stopping: what systemd, the container engine and the kubelet do with a service.

Owns the life of a service's process. Leaves out why it cannot start (health.py) and what commands print.
"""

from __future__ import annotations

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.health import run_problem, settings_of, start_problem
from roleagent_lite.envs.shell.machine import Machine, Service

KILLED = "killed"
BINARY = "/opt/{name}/bin/{name}"


def command_of(service: Service) -> str:
    binary = BINARY.format(name=service.name)
    return binary if service.helper else f"{binary} --config {service.config}"


def start(service: Service, files: Files, machine: Machine, *, quiet: bool = False) -> str | None:
    """Starts a service that is down; why it could not, else None. Both stand in its log."""
    if service.pid is not None:
        return None
    problem = start_problem(service, files, machine)
    if problem is not None:
        if not quiet or problem != service.said:
            machine.log(service.name, f"fatal: {problem}", priority=3)
        service.failed, service.said = True, problem
        return problem
    port = None if service.helper else settings_of(service, files).port(service.port)
    process = machine.spawn(
        service.user, command_of(service), rss=service.memory, port=port, unit=service.name, cpu=0.4
    )
    service.pid, service.listens, service.since = process.pid, port, machine.clock
    service.failed, service.said = False, ""
    machine.log(service.name, f"started, listening on port {port}" if port else "started")
    if not service.helper:
        lock = settings_of(service, files).values.get("lock_file", service.lock)
        files.write(lock, f"{process.pid}\n")
        tell(service, files, machine)
    return None


def _release(service: Service, files: Files) -> None:
    """A running service takes its own lock with it when it ends."""
    if service.pid is None or service.helper:
        return
    lock = settings_of(service, files).values.get("lock_file", service.lock)
    if (files.text(lock) or "").strip() == str(service.pid):
        files.remove(lock)


def stop(service: Service, files: Files, machine: Machine) -> None:
    """Stops a service and all its processes."""
    _release(service, files)
    if service.pid is not None:
        machine.log(service.name, "stopped")
    for process in machine.of_unit(service.name):
        machine.end(process.pid)
    service.failed, service.said = False, ""


def restart(service: Service, files: Files, machine: Machine) -> str | None:
    """Stop and start; why it could not start, else None."""
    stop(service, files, machine)
    return start(service, files, machine)


def kill(pid: int, files: Files, machine: Machine) -> None:
    """The process ends at once. What its service's runtime restarts comes back in `tend`."""
    process = machine.processes[pid]
    service = machine.services.get(process.unit or "")
    if service is not None and service.pid == pid:
        _release(service, files)
        machine.log(service.name, f"main process {pid} exited, status=killed", priority=4, pid=1)
        machine.end(pid)
        service.said = KILLED
    else:
        machine.end(pid)


def tend(files: Files, machine: Machine) -> None:
    """What goes on by itself: containers and pods that are down are started again, killed units too; a
    service that runs and does not serve says so once, and again when it serves."""
    for service in machine.services.values():
        if service.pid is None and service.wanted and service.enabled:
            if service.runtime != "systemd" or service.said == KILLED:
                service.restarts += 1
                start(service, files, machine, quiet=True)
        elif service.pid is not None:
            tell(service, files, machine)


def tell(service: Service, files: Files, machine: Machine) -> None:
    """The log line of a running service whose trouble has changed."""
    sick = run_problem(service, files, machine)
    if sick is not None and sick.text != service.said:
        machine.log(service.name, f"error: {sick.text}", priority=3)
    elif sick is None and service.said:
        machine.log(service.name, "serving again")
    service.said = sick.text if sick is not None else ""

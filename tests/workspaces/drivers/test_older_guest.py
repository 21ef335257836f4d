"""A guest that was started by an older Handrail goes on under a newer one; what it cannot do is said in words."""

from workspaces.drivers.microvm.driver import MicroVMDriver


def test_an_older_guest_without_manifests_goes_on_with_a_note(begin, caplog):
    run = begin("sandbox")  # an init that doesn't know the request, as a bridge of before passed it on
    newer = MicroVMDriver(run.driver.home, run.driver.runtime)
    newer.show_manifest(run.spec.run_id, b"newer\n")
    newer.show_manifest("no-such-run", b"newer\n")
    [said] = [record.getMessage() for record in caplog.records if record.name == "handrail.runner"]
    assert said.startswith(f"The guest of run {run.spec.run_id} is of an older version and shows no newer manifest: ")
    assert run.sh("echo fine") == ("fine\n", 0)

// Steps of a program that uses E2B's JavaScript SDK, unmodified: `steps.cjs MODULES NAME ARGUMENT…` prints what it saw
// as JSON. The steps and the names in their answers are those of steps.py.
"use strict";

const { createRequire } = require("node:module");
const [modules, name, ...words] = process.argv.slice(2);
const { Sandbox, CommandExitError } = createRequire(`${modules}/`)("e2b");

async function failure(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  return null;
}

const steps = {
  async life() {
    const sandbox = await Sandbox.create({ timeoutMs: 600_000, metadata: { job: "one" } });
    await sandbox.files.write("kept.txt", "kept");
    const found = (await Sandbox.list().nextItems()).map((one) => one.sandboxId);
    await sandbox.setTimeout(1_200_000);
    const about = await sandbox.getInfo();
    const paused = [await sandbox.pause(), await sandbox.pause(), (await sandbox.getInfo()).state];
    const resumed = await Sandbox.connect(sandbox.sandboxId);
    const [kept, running] = [await resumed.files.read("kept.txt"), await resumed.isRunning()];
    const killed = [await resumed.kill(), await resumed.kill()];
    return {
      id: sandbox.sandboxId,
      listed: found.includes(sandbox.sandboxId),
      metadata: about.metadata,
      seconds: (about.endAt - about.startedAt) / 1000,
      paused,
      kept,
      running: [running, await resumed.isRunning()],
      killed,
    };
  },

  async run() {
    const sandbox = await Sandbox.create();
    let heard = "";
    const done = await sandbox.commands.run("echo one; sleep 0.2; echo $WHO", {
      envs: { WHO: "two" },
      onStdout: (data) => (heard += data),
    });
    const folder = (await sandbox.commands.run("mkdir -p below && cd below && pwd")).stdout.trim();
    const inside = (await sandbox.commands.run("pwd", { cwd: folder })).stdout.trim();
    const failed = await failure(() => sandbox.commands.run("echo oh; exit 3"));
    const handle = await sandbox.commands.run("sleep 300", { background: true });
    const pids = (await sandbox.commands.list()).map((one) => one.pid);
    const again = await sandbox.commands.connect(handle.pid);
    const isKilled = await sandbox.commands.kill(handle.pid);
    const ended = await failure(() => again.wait());
    const unknown = await sandbox.commands.kill(1);
    const late = await failure(() => sandbox.commands.run("sleep 60", { timeoutMs: 2000 }));
    return {
      id: sandbox.sandboxId,
      stdout: done.stdout,
      heard,
      folder: [folder, inside],
      failed: failed instanceof CommandExitError ? [failed.exitCode, failed.stdout] : String(failed),
      listed: pids.includes(handle.pid),
      killed: [isKilled, ended && ended.exitCode],
      unknown,
      late: late && late.name,
    };
  },

  async pty() {
    const sandbox = await Sandbox.create();
    let seen = "";
    const onData = (data) => (seen += Buffer.from(data).toString());
    const terminal = await sandbox.pty.create({ cols: 100, rows: 30, envs: { WHO: "me" }, cwd: "/tmp", onData });
    await sandbox.pty.resize(terminal.pid, { cols: 120, rows: 40 });
    await sandbox.pty.sendInput(terminal.pid, Buffer.from("stty size; pwd; echo hello-$WHO; exit 5\n"));
    const ended = await failure(() => terminal.wait());
    const other = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} });
    const killed = await sandbox.pty.kill(other.pid);
    await failure(() => other.wait());
    return { id: sandbox.sandboxId, seen, exit: ended && ended.exitCode, killed };
  },

  async files() {
    const sandbox = await Sandbox.create();
    const box = sandbox.files;
    await box.write("a/one.txt", "eins ü");
    const all = new Uint8Array(256).map((_, at) => at);
    await box.write([
      { path: "a/two.bin", data: all.buffer },
      { path: "b/three.txt", data: "3" },
    ]);
    await box.write("packed.txt", "x".repeat(100_000), { gzip: true });
    const listed = (await box.list("a")).map((entry) => [entry.path, entry.type, entry.size]);
    const deep = (await box.list("/workspace", { depth: 2 })).map((entry) => entry.path).sort();
    const made = [await box.makeDir("c/d"), await box.makeDir("c/d")];
    const moved = (await box.rename("a/one.txt", "c/d/uno.txt")).path;
    const events = [];
    const watcher = await box.watchDir("c", (event) => events.push([event.type, event.name]), { recursive: true });
    await box.write("c/new.txt", "new");
    await sandbox.commands.run("echo more >> c/d/uno.txt");
    const has = (name) => events.some((event) => event[1] === name);
    for (let left = 200; left && !(has("new.txt") && has("d/uno.txt")); left--) {
      await new Promise((done) => setTimeout(done, 100));
    }
    await watcher.stop();
    const about = await box.getInfo("c/d/uno.txt");
    await box.remove("b");
    await box.remove("never-there");
    const missing = await failure(() => box.read("b/three.txt"));
    let streamed = 0;
    for await (const piece of await box.read("packed.txt", { format: "stream" })) streamed += piece.length;
    return {
      id: sandbox.sandboxId,
      text: await box.read("c/d/uno.txt"),
      bytes: Buffer.from(all).equals(Buffer.from(await box.read("a/two.bin", { format: "bytes" }))),
      packed: (await box.read("packed.txt")).length,
      streamed,
      listed,
      deep,
      made,
      moved,
      events,
      permissions: about.permissions,
      exists: [await box.exists("a"), await box.exists("b")],
      missing: missing && missing.name,
    };
  },

  async attempt(verb, key, ...rest) {
    try {
      const sandbox = await Sandbox.connect(key);
      if (verb === "run") {
        return { stdout: (await sandbox.commands.run(rest[0], { timeoutMs: Number(rest[1]) * 1000 })).stdout };
      }
      if (verb === "write") return { path: (await sandbox.files.write(rest[0], rest[1])).path };
      if (verb === "read") return { text: await sandbox.files.read(rest[0]) };
      return { id: sandbox.sandboxId };
    } catch (error) {
      return { error: error.name, words: error.message };
    }
  },
};

steps[name](...words).then(
  (seen) => {
    console.log(JSON.stringify(seen));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);

// Reads [{source, flags}] as JSON from standard input, and prints what recheck says of each, in the same order.
process.env.RECHECK_BACKEND = "pure";
const { checkSync } = require("recheck");

const asked = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
// Limits of steps, so that a busy machine finds the same; the time is for what does not end.
const limits = {
  timeout: 300000,
  attackTimeout: null,
  incubationTimeout: null,
  seedingTimeout: null,
  recallTimeout: -1,
  attackLimit: 20000000,
  incubationLimit: 25000,
  maxIteration: 4,
  randomSeed: 1,
};
const told = asked.map(({ source, flags }) => {
  const found = checkSync(source, flags, limits);
  return {
    status: found.status,
    complexity: found.complexity?.summary ?? "",
    why: found.error?.kind ?? "",
    attack: found.attack?.pattern ?? "",
  };
});
process.stdout.write(JSON.stringify(told));

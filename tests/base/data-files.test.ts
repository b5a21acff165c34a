import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { parse, stringify } from "yaml";
import { attack } from "../../src/actions/attack/attack.js";
import { type AttackRequest, attackRequestSchema } from "../../src/actions/attack/attack-request.js";
import { certify } from "../../src/actions/certify.js";
import { exact } from "../../src/actions/exact/exact.js";
import { exportModel } from "../../src/actions/export.js";
import { gate } from "../../src/actions/gate/gate.js";
import { formatGateLock } from "../../src/actions/gate/gate-lock.js";
import { loadAttack } from "../../src/attacks/load-attack.js";
import { UserError } from "../../src/base/errors.js";
import { commands } from "../../src/cli/command-list.js";
import { executeRequest } from "../../src/jobs/execute-request.js";
import { readWorkRequest } from "../../src/jobs/work-request.js";
import { studio as startStudio } from "../../src/studio/studio.js";
import { sweep as runSweep } from "../../src/sweeps/run-sweep.js";
import { seal, unseal } from "../attacks/sealed.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { invoke } from "../cli/invoke.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const [evil, elsewhere, submitted] = ["evil.mjs", "elsewhere", "sbatch.calls"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
let victim: TinyVictim;
let proof: string;
/** What every attack below has in common. */
let attacked: Omit<AttackRequest, "model">;
let number = 0;

type Data = Record<string, unknown>;

/** What a file from elsewhere may ask for, under every key that names such a thing somewhere. */
const poisons: Record<string, Data> = {
  "a module path": { methods: [{ [evil]: {} }], attacks: [{ name: evil, options: {} }], attack: evil },
  "an output path": { saveDataset: join(elsewhere, "c.jsonl") },
  "an sbatch option": { slurm: { options: ["--wrap=id", `--output=${elsewhere}`] }, sbatch: ["--wrap=id"] },
};

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "victim"));
  writeFileSync(evil, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(`${evil}.ran`)}, "");`);
  // A cluster that records what is submitted.
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const name of ["sbatch", "sinfo", "squeue", "scontrol"]) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${name === "sbatch" ? `echo "$@" >> ${submitted}; echo 1` : "true"}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  vi.stubEnv("PATH", `${bin}${delimiter}${process.env.PATH}`);
  const columnNames = { textColumn: ["text"], labelColumn: "label" };
  const data = { data: victim.data, ...columnNames, threads: 1 };
  const source = { path: victim.data, ...columnNames };
  const measured = { data: source, numExamples: 4, threads: 1 };
  attacked = measured;
  await attack({ model: victim.run, ...attacked, attacks: ["greedy"] });
  ({ proof } = await exact({ model: victim.run, ...measured, attacks: ["greedy"], maxChanges: 1 }));
  await certify({ model: victim.run, ...measured, kind: "windows" });
  const lock = join(folder, "pin.lock");
  await gate({ ...measured, model: victim.run, baseline: victim.run, lock, out: join(folder, "gate") });
  await exportModel({ model: victim.run, ...data, numExamples: 2, out: join(folder, "exported") });
});

/** Puts a poison under those of its keys that the data has at any depth, or under all of them. */
function spoil(data: Data, poison: Data): Data {
  const changed = replaceKeys(data, poison) as Data;
  return JSON.stringify(changed) === JSON.stringify(data) ? { ...data, ...poison } : changed;
}

function replaceKeys(data: unknown, poison: Data): unknown {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return data;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, key in poison ? poison[key] : replaceKeys(value, poison)]),
  );
}

const createFolder = (): string => {
  const path = join(folder, `case-${number++}`);
  mkdirSync(path);
  return path;
};

function write(name: string, content: string): string {
  const path = join(createFolder(), name);
  writeFileSync(path, content);
  return path;
}

/** A copy of the attacked run, as if it had been downloaded, of which one file is changed. */
function copyRun(file: string, change: (text: string) => string, source = victim.run): string {
  const run = join(createFolder(), "run");
  cpSync(source, run, { recursive: true });
  writeFileSync(join(run, file), change(readFileSync(join(run, file), "utf8")));
  return run;
}

const changeYaml = (poison: Data) => (text: string) => stringify(spoil(parse(text) as Data, poison));
const changeJson = (poison: Data) => (text: string) => JSON.stringify(spoil(JSON.parse(text) as Data, poison));
/** Changes the header of a journal and what it nests, and gives all lines new checksums. */
const changeHeader = (poison: Data) => (text: string) => {
  const [header, ...lines] = unseal(text) as [Data, ...Data[]];
  const settings = spoil(header.settings as Data, poison);
  return seal([{ ...spoil(header, poison), settings }, ...lines].map((line) => JSON.stringify(line)));
};

const columns = ["--text-column", "text", "--label-column", "label"];
const cpu = ["--device", "cpu", "--threads", "1"];
const sample = ["--num-examples", "2", ...cpu];

/** How each command reads a run folder. Null: it reads none, or another reader below covers it. */
const commandLines: Record<string, ((run: string, out: string) => string[]) | null> = {
  analyze: (run, out) => ["analyze", "consistency", run, "--out", out],
  attack: (run) => ["attack", run, "--attack", "greedy", ...sample, "--resume"],
  audit: (run, out) => ["audit", run, "--minutes", "0.05", "--out", out, ...cpu],
  calibrate: (run) => ["calibrate", run, "--benign", write("benign.txt", "a film\n".repeat(4)), "--fpr", "0.5", ...cpu],
  certify: (run) => ["certify", run, "--kind", "windows", "--num-examples", "4", "--resume", ...cpu],
  compare: (run) => ["compare", run, victim.run],
  evaluate: (run) => ["evaluate", run, ...cpu],
  exact: (run) => ["exact", run, "--attack", "greedy", "--max-changes", "1", ...sample],
  export: (run, out) => ["export", run, "--out", out, "--num-examples", "2"],
  gate: (run, out) => ["gate", run, "--baseline", run, "--out", out, ...sample],
  harden: (run, out) => {
    for (const name of ["standard", "robust"]) cpSync(run, join(out, name), { recursive: true });
    const { model, data } = parse(readFileSync(join(victim.run, "config.yaml"), "utf8")) as Record<string, string>;
    const own = ["--model", model!, "--data", data!, ...columns, "--epochs", "1", "--method", "r-drop"];
    return ["harden", ...own, "--substitutions", victim.substitutions, "--out", out, ...sample];
  },
  predict: (run) => ["predict", run, ...cpu],
  prune: (run) => ["prune", run, "--dry-run"],
  push: (run) => ["push", run, "me/model", "--dry-run"],
  report: (run, out) => ["report", run, "--out", join(out, "report.html")],
  runs: (run) => ["runs", run],
  show: (run) => ["show", run],
  // It reads plans of sweeps and the runs in them, as compare does.
  table: null,
  train: (run) => ["train", "--resume", "--out", run],
  verify: (run) => ["verify", run, "--repeat", "2", ...cpu],
  // They read texts and models only.
  substitutions: null,
  // They read nothing.
  attacks: null,
  completion: null,
  doctor: null,
  methods: null,
  setup: null,
  try: null,
  // A server that goes on; it loads models as predict does.
  serve: null,
  // Readers of their own below.
  studio: null,
  sweep: null,
  worker: null,
};

/** What a worker does with the file of a request. */
const request = async (poison: Data, data: Data): Promise<unknown> =>
  executeRequest(await readWorkRequest(write("request.json", JSON.stringify(spoil(data, poison)))), "data");

/** Every other kind of file from elsewhere, with who reads it. */
const readers: Record<string, (poison: Data) => Promise<unknown>> = {
  "a config": async (poison) =>
    invoke([
      ...["train", "--config", write("config.yaml", stringify(spoil(await tinyRun(createFolder()), poison)))],
      ...["--out", join(createFolder(), "run")],
    ]),
  "a config with one method as a string": async (poison) => {
    const methods = "methods" in poison ? { methods: evil } : poison;
    const config = stringify(spoil(await tinyRun(createFolder()), methods));
    return invoke(["train", "--config", write("config.yaml", config), "--out", join(createFolder(), "run")]);
  },
  "a sweep": async (poison) => {
    const file = write("sweep.yaml", stringify(spoil(await tinyRun(createFolder()), poison)));
    return runSweep({ file, out: createFolder(), estimate: false, backend: "slurm", detach: true });
  },
  "the evaluation of a sweep": async (poison) => {
    const evaluation = spoil({ attacks: ["greedy"], options: poison, analyses: [{ kind: "tradeoff" }] }, poison);
    const file = write("sweep.yaml", stringify({ ...(await tinyRun(createFolder())), evaluation }));
    return runSweep({ file, out: createFolder(), estimate: false, backend: "slurm", detach: true });
  },
  "an analysis of a sweep": async (poison) => {
    const options = "attack" in poison ? { attack: `${evil}:samples=5` } : poison;
    const evaluation = { analyses: [{ kind: "tradeoff", options }] };
    const file = write("sweep.yaml", stringify({ ...(await tinyRun(createFolder())), evaluation }));
    return runSweep({ file, out: createFolder(), estimate: false, backend: "slurm", detach: true });
  },
  "a worker's training": async (poison) =>
    request({}, { kind: "train", config: spoil(await tinyRun(createFolder()), poison), out: createFolder() }),
  "a worker's training of a run": (poison) =>
    request({}, { kind: "train", config: null, out: copyRun("config.yaml", changeYaml(poison)) }),
  "a worker's attack": (poison) =>
    request(poison, {
      kind: "attack",
      ...attackRequestSchema.parse({ model: victim.run, attacks: ["greedy"], ...attacked }),
      out: createFolder(),
    }),
  "a worker's analysis": (poison) =>
    request(poison, {
      kind: "analyze",
      analysis: "distance",
      runs: [victim.run],
      out: createFolder(),
    }),
  "gate.lock": (poison) => {
    const { seal: _, ...content } = JSON.parse(readFileSync(join(folder, "pin.lock"), "utf8")) as Data;
    const changed = { ...content, attack: spoil(content.attack as Data, poison) };
    const lock = write("pin.lock", formatGateLock(changed as unknown as Parameters<typeof formatGateLock>[0]));
    return gate({ model: victim.run, baseline: lock, out: createFolder() });
  },
  "a journal": (poison) => {
    const run = copyRun("attacks/greedy.jsonl", changeHeader(poison));
    return invoke(["verify", run, "--repeat", "2", ...cpu]);
  },
  "the report beside a journal": (poison) => {
    const change = (text: string): string => {
      const report = JSON.parse(text) as Data;
      return JSON.stringify({ ...report, request: spoil(report.request as Data, poison) });
    };
    return invoke(["verify", copyRun("attacks/report.json", change), "--repeat", "2", ...cpu]);
  },
  "a proof": (poison) => {
    const name = join("exact", proof.split("/").at(-1)!);
    const run = copyRun(name, (text) => {
      const [header, ...lines] = unseal(text) as [Data, ...Data[]];
      const options = spoil(header.options as Data, poison);
      return seal([{ ...header, options }, ...lines].map((line) => JSON.stringify(line)));
    });
    return invoke(["verify", join(run, name), "--model", run, ...cpu]);
  },
  certificates: (poison) => {
    const run = copyRun("certificates/windows.jsonl", changeHeader(poison));
    return invoke(["verify", join(run, "certificates/windows.jsonl"), "--model", run, ...cpu]);
  },
  "an exported model": (poison) => {
    const model = copyRun("config.yaml", changeYaml(poison), join(folder, "exported"));
    return invoke(["evaluate", model, "--data", victim.data, ...columns, ...cpu]);
  },
  "the config of a model": (poison) =>
    invoke([
      "evaluate",
      join(copyRun("model/config.json", changeJson(poison)), "model"),
      "--data",
      victim.data,
      ...columns,
    ]),
  "a job of the studio": async (poison) => {
    const runs = createFolder();
    cpSync(victim.run, join(runs, "base"), { recursive: true });
    await using studio = await startStudio({ folders: [runs] });
    const url = new URL(studio.url);
    const id = "20260101000000-aaaaaa";
    const job = join(runs, ".studio", "jobs", id);
    mkdirSync(job, { recursive: true });
    writeFileSync(join(job, "job.json"), JSON.stringify({ title: "a", command: "b", started: "2026" }));
    const own = { kind: "attack", model: join(runs, "base"), attacks: ["greedy"], out: join(runs, "o") };
    writeFileSync(join(job, "request.json"), JSON.stringify(spoil(own, poison)));
    const headers = { authorization: `Bearer ${url.searchParams.get("token")}`, "content-type": "application/json" };
    const body = JSON.stringify({ id, action: "resume" });
    const answer = await fetch(`${url.origin}/api/jobs/change`, { method: "POST", headers, body });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  },
};

/** Runs a reader. It may succeed or refuse with a message, but nothing that the file asks for happens. */
async function expectNothing(read: () => Promise<unknown>): Promise<void> {
  const result = await read().catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
  });
  const { code, stderr = "" } = (result ?? {}) as { code?: number; stderr?: string };
  expect(stderr).not.toMatch(/This is a bug|^\s+at .*:\d+:\d+/m);
  expect([undefined, 0, 1, 2]).toContain(code);
  expect({
    ran: existsSync(`${evil}.ran`),
    written: existsSync(elsewhere),
    submitted: existsSync(submitted) ? readFileSync(submitted, "utf8").match(/--(wrap|output=\S*elsewhere)\S*/g) : null,
  }).toEqual({ ran: false, written: false, submitted: null });
}

test("every command is in the list of those that read run folders", () => {
  expect(Object.keys(commandLines).sort()).toEqual(Object.keys(commands).sort());
});

describe.each(Object.entries(poisons))("%s in a file from elsewhere does nothing:", (_, poison) => {
  test.each(Object.keys(commandLines).filter((name) => commandLines[name]))(
    "in a run that temper %s reads",
    async (name) => {
      const run = copyRun("config.yaml", changeYaml(poison));
      await expectNothing(() => invoke(commandLines[name]!(run, createFolder()), "a good film\n"));
    },
  );
  test.each(Object.keys(readers))("in %s", (name) => expectNothing(() => readers[name]!(poison)));
});

test("the module would run, the file would be written and the job submitted if the person asked for it", async () => {
  const file = write(
    "sweep.yaml",
    stringify({ ...(await tinyRun(createFolder())), slurm: { options: ["--wrap=id"] } }),
  );
  await runSweep({ file, out: createFolder(), estimate: false, backend: "slurm", detach: true, allowCode: true });
  expect(readFileSync(submitted, "utf8")).toContain("--wrap=id");
  await expect(loadAttack(evil)).rejects.toThrow();
  expect(existsSync(`${evil}.ran`)).toBe(true);
  const saveDataset = `${elsewhere}.jsonl`;
  await attack({ model: victim.run, ...attacked, attacks: ["greedy"], out: createFolder(), saveDataset });
  expect(readdirSync(folder)).toContain("elsewhere.jsonl");
});

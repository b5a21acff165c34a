// What is fuzzed. `make` returns damaged files by name; `run` reads them as users do. A UserError is
// a clear refusal; any other error, or a result that `expect` finds wrong, is a failure.
import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { stringify } from "yaml";
import { createText, mutateBytes, mutateJson, mutateValue, toJson } from "./mutate.mjs";
import { sweepSeed, tokenizerFolders } from "./seeds.mjs";

/** Gives changed journal lines matching checksums, so that mutations are not rejected by them. */
export function sealLines(bodies) {
  let previous = "";
  return bodies
    .map((text) => {
      const body = text.slice(0, -1);
      previous = createHash("sha256").update(previous).update(body).digest("hex").slice(0, 32);
      return `${body},"checksum":"${previous}"}\n`;
    })
    .join("");
}

function expect(isTrue, message) {
  if (!isTrue) throw new Error(`wrong result: ${message}`);
}

const read = (seeds, name) => readFileSync(join(seeds, name));

/** A target whose damaged files replace those of a copy of a folder of seeds. */
function overFolder(source, names, use) {
  return ({ seeds, work, load }) => {
    const folder = join(work, source.replaceAll("/", "-"));
    cpSync(join(seeds, source), folder, { recursive: true });
    return {
      folder,
      make(random) {
        const name = random.pick(names);
        const bytes = read(seeds, join(source, name));
        const damaged = name.endsWith(".json") ? mutateJson(random, bytes) : mutateBytes(random, bytes);
        return Object.fromEntries(
          names.map((each) => [each, each === name ? damaged : read(seeds, join(source, each))]),
        );
      },
      run: (files) => use({ folder, load, files, seeds }),
    };
  };
}

async function classify({ folder, load }) {
  const { loadClassifier } = await load("actions/predict/text-classifier");
  const model = await loadClassifier(folder, { device: "cpu", threads: 1 });
  try {
    for (const { label, probabilities } of await model.classify(["a good film", ["a pair", "of texts"]])) {
      const values = Object.values(probabilities);
      expect(values.length === model.labels.length, "one probability per label");
      expect(Math.abs(values.reduce((sum, value) => sum + value, 0) - 1) < 1e-3, `probabilities ${values}`);
      expect(probabilities[label] === Math.max(...values), `label ${label}`);
    }
  } finally {
    model.close();
  }
}

async function tokenize({ folder, load }) {
  const { loadTokenizer } = await load("text/tokenizer");
  const tokenizer = await loadTokenizer(folder);
  for (const text of ["a good film", "ﬁn É中 [MASK] <pad> x\u0301\u0323", ""]) {
    const { ids } = tokenizer.encode([text], 16);
    expect(ids.length <= 16 && ids.every((id) => id >= 0 && id < tokenizer.vocabSize), `ids ${ids}`);
  }
}

/** A target over several folders: each case damages one file of one of them. */
function overFolders(sources, use) {
  return ({ seeds, work, load }) => ({
    folder: work,
    make(random) {
      const source = random.pick(sources);
      const names = readdirSync(join(seeds, source)).sort();
      const damaged = random.pick(names);
      const readFile = (name) => read(seeds, join(source, name));
      const mutate = damaged.endsWith(".json") ? mutateJson : mutateBytes;
      return Object.fromEntries(
        names.map((name) => [`${source}/${name}`, name === damaged ? mutate(random, readFile(name)) : readFile(name)]),
      );
    },
    run: (files) => use({ folder: dirname(join(work, Object.keys(files)[0])), load }),
  });
}

/** A target of single files without a folder around them. */
const overFiles = (make, run) => async (context) => ({
  folder: context.work,
  make: (random) => make(random, context.seeds),
  run: (files) => run({ ...context, files, folder: context.work }),
});

const tables = ["reviews.tsv", "reviews.csv", "reviews.json", "reviews.jsonl", "plain.parquet", "train.parquet"];

/** The lines of a journal, of which one is damaged. Most get valid checksums. */
function mutateJournal(random, bytes) {
  const lines = bytes.toString().trimEnd().split("\n");
  const bodies = lines.map((line) => line.replace(/,"checksum":"\w+"\}$/, "}"));
  const at = random.int(bodies.length);
  const changed = mutateValue(random, JSON.parse(bodies[at]));
  const text = toJson(typeof changed === "object" && changed !== null ? changed : { changed });
  const sealed = Buffer.from(sealLines(bodies.with(at, text)));
  return random.chance(0.1) ? mutateBytes(random, sealed) : sealed;
}

/** A safetensors file with another header, of the length that the file says. */
function mutateHeader(random, bytes) {
  const end = 8 + Number(bytes.readBigUInt64LE());
  const header = Buffer.from(toJson(mutateValue(random, JSON.parse(bytes.toString("utf8", 8, end)))));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, bytes.subarray(end)]);
}

function readProof(seeds) {
  const folder = join(seeds, "runs/one/exact");
  const all = readdirSync(folder).map((name) => readFileSync(join(folder, name)));
  return all.find((bytes) => bytes.includes('"temper exact proof"'));
}

const jobSeeds = [
  {
    kind: "attack",
    model: "m",
    attacks: ["pwws"],
    out: "o",
    saveDataset: "x.jsonl",
    numExamples: 4,
  },
  { kind: "train", config: { model: "m", task: "sst2", methods: ["rift"] }, out: "o" },
];

/** Endpoints of other servers: how each is asked, and what it answers for one text. */
const mappedEndpoints = [
  {
    options: { preset: "tei" },
    answer: [
      [
        { label: "spam", score: 0.75 },
        { label: "ham", score: 0.25 },
      ],
    ],
  },
  { options: { preset: "transformers", classes: "ham,spam" }, answer: [{ label: "spam", score: 0.75 }] },
  {
    options: { preset: "openai-moderation" },
    answer: { results: [{ flagged: false, category_scores: { hate: 0.01, violence: 0.25 } }] },
  },
  {
    options: {
      request: '{"items": [$text], "model": "x"}',
      labels: "$.predictions[*].class",
      scores: "$.predictions[*].scores.*",
      classes: ["ham", "spam"],
      batchSize: 1,
      headers: { "x-key": "a" },
    },
    answer: { predictions: [{ class: "spam", scores: { value: 3.5 } }] },
  },
];

/** JSON that a program can pass on: some mutations are no JSON any more. */
function toValidJson(value) {
  const text = toJson(value);
  try {
    JSON.parse(text);
    return text;
  } catch {
    return "{}";
  }
}

/** A target whose files are the options of a client and the answer of its endpoint. */
const askEndpoint = (make) => async (context) => {
  let answer = { status: 200, body: "" };
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(answer.status, answer.headers).end(answer.body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  const url = `http://127.0.0.1:${server.address().port}/`;
  return {
    folder: context.work,
    make(random) {
      const { options, body } = make(random);
      const status = random.chance(0.9) ? 200 : random.pick([201, 204, 301, 400, 404, 418]);
      const headers = random.chance(0.9)
        ? {}
        : { location: encodeURI(createText(random).toWellFormed?.() ?? "http://[") };
      return {
        body,
        "answer.json": Buffer.from(JSON.stringify({ status, headers })),
        "options.json": Buffer.from(toValidJson(options)),
      };
    },
    async run(files) {
      answer = { ...JSON.parse(files["answer.json"]), body: files.body };
      const read = JSON.parse(files["options.json"] ?? "{}");
      const isObject = typeof read === "object" && read !== null && !Array.isArray(read);
      const options = isObject ? { ...read, retries: 0, timeout: 5 } : read;
      const { connectHttpVictim } = await context.load("attacks/http-victim");
      const victim = await connectHttpVictim(url, options);
      expect(victim.numLabels >= 2, `${victim.numLabels} labels`);
      expect(victim.labels === null || victim.labels.length === victim.numLabels, `labels ${victim.labels}`);
      if (options.requestsPerSecond !== undefined) return;
      for (const { probabilities } of await victim.predict(victim.prepare([["a good film"]])))
        expect(Math.abs(probabilities.reduce((sum, value) => sum + value, 0) - 1) < 0.02, `rows ${probabilities}`);
    },
  };
};

export const targets = {
  safetensors: overFiles(
    (random, seeds) => {
      const bytes = read(seeds, "bert-tiny/model.safetensors");
      return { "model.safetensors": random.chance(0.5) ? mutateHeader(random, bytes) : mutateBytes(random, bytes) };
    },
    async ({ folder, load }) => {
      const { openSafetensors } = await load("models/checkpoint/safetensors");
      const file = await openSafetensors(join(folder, "model.safetensors"));
      try {
        for (const [name, { shape }] of file.entries) {
          const count = shape.reduce((product, size) => product * size, 1);
          expect(count === 0 || file.readSync(name).length % count === 0, `length of ${name}`);
        }
      } finally {
        await file.close();
      }
    },
  ),
  config: overFolder("runs/one/model", ["config.json"], classify),
  weights: overFolder("runs/one/model", ["model.safetensors"], classify),
  tokenizer: overFolder("bert-tiny", ["tokenizer.json"], tokenize),
  vocabulary: overFolders(tokenizerFolders, tokenize),
  tables: overFiles(
    (random, seeds) => {
      const name = random.pick(tables);
      const bytes = read(seeds, name);
      return { [name]: name.endsWith(".json") ? mutateJson(random, bytes) : mutateBytes(random, bytes) };
    },
    async ({ folder, files, load }) => {
      const [name] = Object.keys(files);
      const { loadTask } = await load("tasks/index");
      const task = await loadTask({ data: join(folder, name), skipBadRows: true });
      for (const split of task.splits)
        for (const { texts, label } of await task.load(split))
          expect(texts.every((text) => typeof text === "string") && task.labels[label] !== undefined, "an example");
    },
  ),
  journals: overFiles(
    (random, seeds) => ({ "pwws.jsonl": mutateJournal(random, read(seeds, "runs/one/attacks/pwws.jsonl")) }),
    async ({ folder, load }) => {
      const path = join(folder, "pwws.jsonl");
      const { summarizeJournal } = await load("evaluation/attack-summary");
      const { summary } = await summarizeJournal(path);
      expect(summary.accuracyUnderAttack >= 0 && summary.accuracyUnderAttack <= 1, "accuracy");
    },
  ),
  checkpoints: overFolder(
    "runs/one/checkpoints/step-00000008",
    ["state.json", "weights.safetensors"],
    async (context) => {
      const { folder, load, seeds } = context;
      const { readCheckpointState, verifyGroups, DamagedCheckpoint } = await load("train/checkpoint-state");
      try {
        const { state, hashes } = await readCheckpointState(folder, 8);
        await verifyGroups(folder, hashes);
        const original = JSON.parse(read(seeds, "runs/one/checkpoints/step-00000008/state.json"));
        expect(JSON.stringify(state) === JSON.stringify(original.state), "the state was changed");
      } catch (error) {
        if (!(error instanceof DamagedCheckpoint)) throw error;
      }
    },
  ),
  events: overFolder(
    "runs/one",
    ["events.jsonl", "timings.jsonl", "results.json", "status.json"],
    async ({ folder, load }) => {
      const { Run } = await load("actions/run");
      const { listRuns } = await load("runs/list-runs");
      await listRuns(folder);
      const run = await Run.open(folder);
      await run.events();
      await run.timings();
      await run.metrics();
    },
  ),
  sweep: overFiles(
    (random) => {
      const value = mutateValue(random, sweepSeed);
      const text = random.chance(0.5) ? toJson(value) : stringify(value);
      return { "sweep.yaml": random.chance(0.15) ? mutateBytes(random, Buffer.from(text)) : Buffer.from(text) };
    },
    async ({ folder, load }) => {
      const { readSweep } = await load("sweeps/read-sweep");
      const { countRuns, expandSweep } = await load("sweeps/expand");
      const sweep = await readSweep({ file: join(folder, "sweep.yaml"), trust: "none" });
      if (countRuns(sweep) <= 100) await expandSweep(sweep);
      expect({}.polluted === undefined, "prototype");
    },
  ),
  runconfig: overFiles(
    (random, seeds) => {
      const text = read(seeds, "runs/one/config.yaml");
      return { "run.yaml": mutateBytes(random, text) };
    },
    async ({ folder, load }) => {
      const { readRun } = await load("settings/read-config");
      await readRun({ file: join(folder, "run.yaml") });
    },
  ),
  substitutions: overFiles(
    (random, seeds) => ({ "table.json": mutateJson(random, read(seeds, "table.json")) }),
    async ({ folder, load }) => {
      const { loadSubstitutions } = await load("text/load-substitutions");
      const { getSubstitutes } = await loadSubstitutions(join(folder, "table.json"));
      for (const word of ["good", "constructor", "__proto__", "FILM", ""])
        expect(
          getSubstitutes(word).every((each) => typeof each === "string"),
          word,
        );
    },
  ),
  // Temper's own format: any damaged answer is refused.
  endpoint: askEndpoint((random) => ({
    options: {},
    body: mutateJson(
      random,
      Buffer.from(JSON.stringify(random.pick([{ probabilities: [[0.25, 0.75]] }, [[0.25, 0.75]]]))),
    ),
  })),
  // Presets and mappings: the options that a config or a journal names, the answer, or both are damaged.
  mapping: askEndpoint((random) => {
    const { options, answer } = random.pick(mappedEndpoints);
    const body = Buffer.from(JSON.stringify(answer));
    const damages = random.int(3);
    return {
      options: damages === 0 ? options : mutateValue(random, options),
      body: damages === 1 ? body : mutateJson(random, body),
    };
  }),
  serve: async (context) => {
    const { createInferenceApp } = await context.load("serve/inference-app");
    const { createModelService } = await context.load("serve/model-service");
    const { createInferenceMetrics } = await context.load("serve/inference-metrics");
    const predictor = {
      name: "lengths",
      numLabels: 2,
      callLimits: { maxTexts: 8 },
      prepare: (texts) => texts.map(([text]) => ({ content: text, length: text.length })),
      predict: async (items) => items.map(({ length }) => ({ probabilities: [length, -length] })),
    };
    const limits = { maxBatchTexts: 8, maxPasses: 100, maxClientPasses: 100, maxQueuedPasses: 100 };
    const events = { onBatch: () => undefined, onWaiting: () => undefined };
    const handler = {
      modelInfo: { model: "lengths", labels: ["long", "short"] },
      service: createModelService({ predictor, wrap: (each) => each }, limits, events),
      metrics: createInferenceMetrics(),
    };
    const { app } = createInferenceApp(handler, { maxTexts: 8, maxCharacters: 100 });
    return {
      folder: context.work,
      make(random) {
        const texts = Array.from({ length: random.int(6) }, () => createText(random, 20));
        const body = mutateJson(
          random,
          Buffer.from(JSON.stringify({ texts: random.chance(0.5) ? texts : [["a", "b"], "c"] })),
        );
        return { body };
      },
      async run({ body }) {
        const headers = { host: "localhost", "content-type": "application/json" };
        const response = await app.request("http://localhost/", { method: "POST", headers, body });
        const text = await response.text();
        expect(
          [200, 400, 413].includes(response.status) && text.length < 8000,
          `${response.status} ${text.slice(0, 200)}`,
        );
        if (response.status === 200) expect(Array.isArray(JSON.parse(text).probabilities), text);
      },
    };
  },
  gatelock: overFiles(
    (random, seeds) => {
      const { seal: _, ...content } = JSON.parse(read(seeds, "gate.lock"));
      const changed = mutateValue(random, content);
      // A valid seal, so that mutations are not rejected by it.
      const seal = createHash("sha256").update(JSON.stringify(changed)).digest("hex");
      const isObject = typeof changed === "object" && changed !== null;
      const sealed = Buffer.from(toJson(isObject ? { ...changed, seal } : changed));
      return { "gate.lock": random.chance(0.1) ? mutateBytes(random, sealed) : sealed };
    },
    async ({ folder, load }) => {
      const { readGateLock } = await load("actions/gate/gate-lock");
      const { readPackageVersion } = await load("runs/environment");
      const { attack, examples, task } = await readGateLock(join(folder, "gate.lock"), "data", readPackageVersion());
      for (const { label, baseline } of examples) {
        expect(Object.keys(baseline.attacks).length === attack.attacks.length, "a check was dropped");
        expect(task.labels[label] !== undefined, `label ${label}`);
      }
    },
  ),
  jobs: overFiles(
    (random) => ({ "request.json": mutateJson(random, Buffer.from(JSON.stringify(random.pick(jobSeeds)))) }),
    async ({ folder, load }) => {
      const { readWorkRequest } = await load("jobs/work-request");
      const { checkStoredRequest, formatJobCommand } = await load("studio/check-form");
      const request = await readWorkRequest(join(folder, "request.json"));
      checkStoredRequest(request, [process.cwd()]);
      formatJobCommand(request);
    },
  ),
  action: async (context) => {
    const { readVerdict } = await import("../../scripts/action/gate.mjs");
    const { readInstallInputs } = await import("../../scripts/action/install.mjs");
    const integrity = `sha512-${"a".repeat(86)}==`;
    const inputs = { RUNNER_TEMP: "/tmp/r", GITHUB_WORKSPACE: "/w", VERSION: "0.2.0", INTEGRITY: integrity };
    return {
      folder: context.work,
      make: (random) => ({
        "gate.json": mutateJson(random, Buffer.from('{"verdict": "passed", "checks": []}')),
        "inputs.json": Buffer.from(toJson({ ...inputs, [random.pick(Object.keys(inputs))]: createText(random) })),
      }),
      async run(files) {
        const verdict = readVerdict(context.work, 0);
        expect(verdict === null || verdict === "passed", `verdict ${verdict}`);
        try {
          const { version } = readInstallInputs(JSON.parse(files["inputs.json"]));
          expect(/^[\w.-]+$/.test(version), `version ${version}`);
        } catch (error) {
          expect(/expected|inside of the workspace/.test(error.message), error.message);
        }
      },
    };
  },
  proofs: async (context) => {
    const { loadVictim } = await context.load("actions/load/load-victim");
    const { verifyProof } = await context.load("proofs/exact/verify-proof");
    const { victim } = await loadVictim(join(context.seeds, "runs/one"), {
      device: "cpu",
      threads: 1,
      precision: null,
    });
    return {
      folder: context.work,
      make: (random) => ({ "proof.jsonl": mutateJournal(random, readProof(context.seeds)) }),
      async run() {
        const found = await verifyProof(join(context.work, "proof.jsonl"), victim, {
          blocks: 3,
          seed: 0,
          tolerance: 1e-3,
        });
        expect(found.checkedBlocks <= found.blocks, "blocks");
      },
    };
  },
  certificates: overFiles(
    (random, seeds) => {
      const kind = random.pick(["canonical", "hash-vote"]);
      return { "certificates.jsonl": mutateJournal(random, read(seeds, `runs/one/certificates/${kind}.jsonl`)) };
    },
    async ({ folder, load, seeds }) => {
      const { readHeader } = await load("base/checked-lines");
      const { certificateFormat } = await load("proofs/certificates/journal");
      const { verifyCertificates } = await load("actions/verify/verify-certificates");
      const path = join(folder, "certificates.jsonl");
      const { certificate, examples } = await readHeader(path, certificateFormat);
      const model = join(seeds, certificate.kind === "canonical" ? "runs/one" : "runs/vote");
      const { lines } = await verifyCertificates(path, model, { device: "cpu", threads: 1 }, {});
      expect(lines === examples, "lines");
    },
  ),
  audits: overFolder("audits/one", ["audit.json", "progress.json"], async ({ folder, load, seeds, files }) => {
    const { listAudits } = await load("studio/audits");
    for (const { html } of await listAudits([dirname(folder)]))
      expect(!/<script>alert/.test(html), "markup of the input");
    // The path of the data is relative, so that kept inputs do not name folders of this host.
    const path = join(folder, "audit.json");
    const content = files["audit.json"].toString();
    writeFileSync(path, content.replaceAll('"reviews.tsv"', JSON.stringify(join(seeds, "reviews.tsv"))));
    const { verify } = await load("audit/verify-audit");
    const model = join(seeds, "runs/one");
    const [{ classes }] = await verify({ journals: [path], model, device: "cpu", threads: 1 });
    expect(
      classes.some(({ isVerified }) => isVerified),
      "nothing was verified",
    );
  }),
  onnx: overFolder("exported", ["onnx/model.onnx", "config.json"], classify),
  report: overFolder(
    "runs/one",
    [
      ...["results.json", "events.jsonl", "environment.json", "attacks/report.json", "config.yaml", "timings.jsonl"],
      ...["certificates/canonical.json", "attacks/pwws.jsonl", "status.json", "model/config.json"],
    ],
    async ({ folder, load }) => {
      const { report } = await load("report/index");
      const out = join(folder, "..", "report.html");
      rmSync(out, { force: true });
      await report({ runs: [folder], out });
      expect(!/<script>alert/.test(readFileSync(out, "utf8")), "markup of the input");
    },
  ),
};

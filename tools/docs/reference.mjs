// Writes the generated pages of docs/reference: the command line, the settings of a run, and the options of methods and attacks.
// They come from the built program and its schema, so they are right by construction and not committed.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
const folder = join(root, "docs/reference");

/** @param {string[]} args */
const temper = (...args) =>
  execFileSync(process.execPath, [join(root, "dist/cli/main.js"), ...args], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, COLUMNS: "110", NO_COLOR: "1" },
  });

/**
 * @param {string} name
 * @param {string} title
 * @param {string} introduction
 * @param {string[]} sections
 */
const write = (name, title, introduction, sections) =>
  writeFileSync(join(folder, `${name}.md`), [`# ${title}`, introduction, ...sections].join("\n\n").concat("\n"));

/** @param {string} text */
const block = (text) => `\`\`\`text\n${text.trim()}\n\`\`\``;

const commands = [...temper("--help").matchAll(/^ {2}([a-z]+) (?:\[|<|\s)/gm)]
  .map(([, name]) => /** @type {string} */ (name))
  .filter((name) => name !== "help");
write(
  "cli",
  "Command line",
  "What `temper COMMAND --help` prints. Every command exits with 0 if it worked, 1 if a check failed, and 2 for bad input.",
  commands.map((name) => {
    const help = temper(name, "--help");
    return `## ${name}\n\n${block(help.includes("--help-all") ? temper(name, "--help-all") : help)}`;
  }),
);

/** @type {["methods", "attacks"]} */
const registries = ["methods", "attacks"];
for (const registry of registries) {
  const entries = /** @type {{ name: string }[] | Record<string, { name: string }[]>} */ (
    JSON.parse(temper(registry, "--json"))
  );
  const names = (Array.isArray(entries) ? entries : Object.values(entries).flat()).map(({ name }) => name);
  write(
    registry,
    registry === "methods" ? "Options of methods" : "Options of attacks",
    `What \`temper ${registry} NAME\` prints. On the command line, options follow the name: \`NAME:option=value,option=value\`.`,
    names.map((name) => `## ${name}\n\n${block(temper(registry, name))}`),
  );
}

/** @typedef {{ type?: string | string[], enum?: unknown[], const?: unknown, anyOf?: Property[], items?: Property }} Shape */
/** @typedef {Shape & { properties?: Record<string, Property>, default?: unknown, description?: string }} Property */

/** @param {Property} property @returns {string} */
function describeType({ type, enum: values, const: value, anyOf, items }) {
  if (value !== undefined) return JSON.stringify(value);
  if (values) return values.map((one) => JSON.stringify(one)).join(", ");
  if (anyOf) return [...new Set(anyOf.map(describeType))].join(", ");
  if (type === "array") return items ? `list of ${describeType(items)}` : "list";
  return [type ?? "any"].flat().join(", ");
}

/** @param {string} text */
const escapeCell = (text) => text.replaceAll("|", "\\|").replaceAll("<", "&lt;");

/** @param {string} prefix @param {Record<string, Property>} properties @returns {string[]} */
function listSettings(prefix, properties) {
  return Object.entries(properties).flatMap(([name, property]) => {
    const path = `${prefix}${name}`;
    if (property.properties) return listSettings(`${path}.`, property.properties);
    const value = property.default === undefined ? "" : `\`${JSON.stringify(property.default)}\``;
    return [
      `| \`${path}\` | ${escapeCell(describeType(property))} | ${value} | ${escapeCell(property.description ?? "")} |`,
    ];
  });
}

const schema = /** @type {Property} */ (JSON.parse(readFileSync(join(root, "schemas/run.schema.json"), "utf8")));
write(
  "config",
  "Settings of a run",
  "The keys of a config file (`temper train --config FILE`), of `--set KEY=VALUE` and of `train()` in TypeScript.",
  [
    ["| key | values | default | meaning |", "|---|---|---|---|", ...listSettings("", schema.properties ?? {})].join(
      "\n",
    ),
  ],
);

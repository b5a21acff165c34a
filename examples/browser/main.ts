import { parseSubstitutionTable, type Substitutions } from "../../src/text/substitutions.js";
import { type AttackName, attackText } from "./attack.js";
import { type BrowserModel, loadBrowserModel, type ReadFile } from "./model.js";

const find = <Found extends HTMLElement>(id: string): Found => document.getElementById(id) as Found;
const [status, text, answer] = [find("status"), find<HTMLTextAreaElement>("text"), find("answer")];
const [attack, result] = [find<HTMLFormElement>("attack"), find("result")];
let model: BrowserModel | null = null;
let substitutions: Substitutions = parseSubstitutionTable({}, "no table");

/** Reads a folder that the server of this page has. */
const fetchFile =
  (folder: string): ReadFile =>
  async (path) => {
    const response = await fetch(`${folder}/${path}`);
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
  };

/** Reads a folder of this computer. Nothing is sent anywhere. */
const readPicked =
  (files: readonly File[]): ReadFile =>
  async (path) => {
    const found = files.find(({ webkitRelativePath }) => webkitRelativePath.replace(/^[^/]*\//, "") === path);
    return found ? new Uint8Array(await found.arrayBuffer()) : null;
  };

async function load(read: ReadFile): Promise<void> {
  status.textContent = "Loading the model …";
  try {
    model = await loadBrowserModel(read);
    const table = await read("table.json");
    if (table) substitutions = parseSubstitutionTable(JSON.parse(new TextDecoder().decode(table)), "table.json");
    status.textContent = `Ready: ${model.labels.join(", ")}`;
    await classify();
  } catch (error) {
    model = null;
    status.textContent = `The model cannot be loaded. ${error instanceof Error ? error.message : String(error)}`;
  }
}

let latest = 0;

/** Classifies the text. An answer to an earlier text is not shown. */
async function classify(): Promise<void> {
  if (model === null || text.value.trim() === "") return;
  const number = ++latest;
  const { labels } = model;
  const row = await model.classify(text.value);
  if (number !== latest) return;
  answer.replaceChildren(
    ...labels.map((label, i) => {
      const meter = Object.assign(document.createElement("meter"), { value: row[i]! });
      const line = document.createElement("label");
      line.append(`${label} ${(100 * row[i]!).toFixed(1)}% `, meter);
      return line;
    }),
  );
}

text.addEventListener("input", () => void classify());
find<HTMLInputElement>("folder").addEventListener("change", (event) => {
  const { files } = event.currentTarget as HTMLInputElement;
  void load(readPicked([...(files ?? [])]));
});
attack.addEventListener("submit", (event) => {
  event.preventDefault();
  void run(String(new FormData(attack).get("name")) as AttackName);
});

async function run(name: AttackName): Promise<void> {
  if (model === null || text.value.trim() === "") return;
  result.textContent = "Searching …";
  const { labels } = model;
  try {
    const found = await attackText(model, name, text.value, substitutions, (queries) => {
      result.textContent = `Searching … ${queries} texts`;
    });
    const label = labels[found.after.indexOf(Math.max(...found.after))];
    result.textContent =
      found.outcome === "success"
        ? `Fooled after ${found.queries} queries: ${found.finalTexts[0]} (${label})`
        : `Robust: ${found.queries} queries found no text of another class.`;
    result.dataset.outcome = found.outcome;
    result.dataset.text = found.finalTexts[0];
    result.dataset.queries = String(found.queries);
  } catch (error) {
    result.textContent = error instanceof Error ? error.message : String(error);
  }
}

void load(fetchFile(new URLSearchParams(location.search).get("model") ?? "model"));

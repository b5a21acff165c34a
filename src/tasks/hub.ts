import { posix } from "node:path";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import type { HubFile } from "../hub/hub-cache.js";
import { type CustomTaskOptions, createTaskFromFiles, groupFilesBySplit, type SplitFiles } from "./custom-task.js";
import {
  type DatasetCard,
  type DatasetRepository,
  type HubReadOptions,
  openDatasetRepository,
  readCardClassNames,
} from "./hub-repository.js";
import type { DatasetSource, Task } from "./task.js";

const shortNames: Record<string, string> = {
  glue: "nyu-mll/glue",
  imdb: "stanfordnlp/imdb",
  snli: "stanfordnlp/snli",
  sst2: "stanfordnlp/sst2",
  rotten_tomatoes: "cornell-movie-review-data/rotten_tomatoes",
  ag_news: "fancyzhx/ag_news",
};

/** Parses hf:OWNER/NAME[@REVISION][/CONFIG], or a known short name such as hf:glue/sst2. */
export function parseDatasetReference(reference: string) {
  const [first = "", ...rest] = reference.replace(/^hf:/, "").split("/");
  const [shortName = "", shortRevision] = first.split("@");
  const fullName = shortNames[shortName];
  const [name, revision, config] =
    fullName === undefined
      ? [`${first}/${rest[0]?.split("@")[0] ?? ""}`, rest[0]?.split("@")[1], rest.slice(1).join("/")]
      : [fullName, shortRevision, rest.join("/")];
  if (!/^[\w.-]+\/[\w.-]+$/.test(name))
    throw new UserError(`${reference}: expected hf:OWNER/NAME, hf:OWNER/NAME/CONFIG or hf:glue/sst2.`);
  return { name, revision: revision || undefined, config: config || undefined };
}

export async function loadHubTask(reference: string, options: CustomTaskOptions & HubReadOptions): Promise<Task> {
  const { config, repository, card, splits } = await openReference(reference, options);
  const files: [string, readonly string[]][] = [];
  for (const [split, parts] of Object.entries(splits)) files.push([split, await repository.download(parts)]);
  const name = `hf:${repository.repository}${config === undefined ? "" : `/${config}`}`;
  const classNames = readCardClassNames(card, config);
  const task = await createTaskFromFiles(name, Object.fromEntries(files) as SplitFiles, options, classNames);
  return { ...task, source: createSource(repository, splits) };
}

export async function findHubSource(reference: string): Promise<DatasetSource> {
  const { repository, splits } = await openReference(reference, {});
  return createSource(repository, splits);
}

function createSource(
  { repository, revision }: DatasetRepository,
  splits: Readonly<Record<string, readonly HubFile[]>>,
): DatasetSource {
  return { repository, revision, listFiles: async () => Object.values(splits).flat() };
}

async function openReference(reference: string, options: HubReadOptions) {
  const { name, revision, config } = parseDatasetReference(reference);
  const repository = await openDatasetRepository(reference, name, { ...options, revision });
  const listed = await repository.list();
  const tables = listed.map(({ path }) => path).filter((path) => path.endsWith(".parquet"));
  if (tables.length === 0)
    throw new UserError(`${reference} has no Parquet files. Download it and pass its folder with --data.`);
  const card = await repository.readCard();
  const paths = groupFilesBySplit(selectConfigFiles(reference, tables, config, card));
  if (paths.train === undefined)
    throw new UserError(`${reference} has no train split. Its files are ${tables.join(", ")}.`);
  const splits: Readonly<Record<string, readonly HubFile[]>> = Object.fromEntries(
    Object.entries(paths).map(([split, each]) => [split, each.map((path) => listed.find((f) => f.path === path)!)]),
  );
  return { config, repository, card, splits };
}

/** Returns the files of a configuration: those of the card, else those of its folder. */
function selectConfigFiles(
  reference: string,
  tables: readonly string[],
  config: string | undefined,
  card: DatasetCard,
): readonly string[] {
  const described = card.configs?.filter((entry) => entry.data_files !== undefined) ?? [];
  const names =
    described.length > 0
      ? described.map((entry) => entry.config_name)
      : [...new Set(tables.map((path) => posix.dirname(path)))];
  const wanted =
    config ?? (names.length === 1 ? names[0] : names.find((name) => name === "default" || name === "plain_text"));
  if (wanted === undefined || !names.includes(wanted)) {
    const problem =
      config === undefined
        ? "has several configurations"
        : `has no configuration "${config}"${didYouMean(config, names)}`;
    const choices = names.map((name) => `${reference.replace(`/${config}`, "")}/${name}`);
    throw new UserError(`${reference} ${problem}. Use one of ${choices.join(", ")}.`);
  }
  const patterns = described.find((entry) => entry.config_name === wanted)?.data_files?.flatMap((files) => files.path);
  if (patterns === undefined) return tables.filter((path) => posix.dirname(path) === wanted);
  return tables.filter((path) => patterns.some((pattern) => matchesGlob(path, pattern)));
}

/** Matches a path with a pattern of * without the exponential time of a regular expression. */
export function matchesGlob(path: string, pattern: string): boolean {
  const [first = "", ...parts] = pattern.split(/\*+/);
  const last = parts.pop();
  if (last === undefined) return path === first;
  if (path.length < first.length + last.length || !path.startsWith(first) || !path.endsWith(last)) return false;
  const end = path.length - last.length;
  let at = first.length;
  for (const part of parts) {
    const found = path.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

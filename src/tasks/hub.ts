import { readFile } from "node:fs/promises";
import { posix } from "node:path";
import { parse } from "yaml";
import { didYouMean } from "../did-you-mean.js";
import { UserError } from "../errors.js";
import { downloadHubFile, listHubFiles } from "../models/hub.js";
import { type CustomTaskOptions, createTaskFromFiles, groupFilesBySplit, type SplitFiles } from "./custom-task.js";
import type { Task } from "./task.js";

/** Datasets with a short name without an owner. */
const shortNames: Record<string, string> = {
  glue: "nyu-mll/glue",
  imdb: "stanfordnlp/imdb",
  snli: "stanfordnlp/snli",
  sst2: "stanfordnlp/sst2",
  rotten_tomatoes: "cornell-movie-review-data/rotten_tomatoes",
  ag_news: "fancyzhx/ag_news",
};

interface DatasetReference {
  readonly repo: { readonly type: "dataset"; readonly name: string; readonly revision?: string };
  readonly config: string | undefined;
}

/** Parses hf:OWNER/NAME[@REVISION][/CONFIG], or a known short name such as hf:glue/sst2. */
export function parseDatasetReference(reference: string): DatasetReference {
  const [first = "", ...rest] = reference.replace(/^hf:/, "").split("/");
  const [shortName = "", shortRevision] = first.split("@");
  const fullName = shortNames[shortName];
  const [name, revision, config] =
    fullName === undefined
      ? [`${first}/${rest[0]?.split("@")[0] ?? ""}`, rest[0]?.split("@")[1], rest.slice(1).join("/")]
      : [fullName, shortRevision, rest.join("/")];
  if (!/^[\w.-]+\/[\w.-]+$/.test(name))
    throw new UserError(`${reference}: expected hf:OWNER/NAME, hf:OWNER/NAME/CONFIG or hf:glue/sst2.`);
  return { repo: { type: "dataset", name, ...(revision && { revision }) }, config: config || undefined };
}

/** Loads a Hugging Face dataset that is stored as Parquet. */
export async function loadHubTask(reference: string, options: CustomTaskOptions): Promise<Task> {
  const { repo, config } = parseDatasetReference(reference);
  const listed = await listHubFiles(repo);
  const tables = listed.filter((path) => path.endsWith(".parquet"));
  if (tables.length === 0)
    throw new UserError(`${reference} has no Parquet files. Download it and pass its folder with --data.`);
  const card = listed.includes("README.md")
    ? parseDatasetCard(await readFile(await downloadHubFile(repo, "README.md"), "utf8"))
    : {};
  const splits = groupFilesBySplit(selectConfigFiles(reference, tables, config, card));
  if (splits.train === undefined)
    throw new UserError(`${reference} has no train split. Its files are ${tables.join(", ")}.`);
  options.onWarning?.(`${reference}: downloading ${Object.values(splits).flat().join(", ")}, unless cached`);
  const files: [string, readonly string[]][] = [];
  for (const [split, paths] of Object.entries(splits))
    files.push([split, await Promise.all(paths.map((path) => downloadHubFile(repo, path)))]);
  const name = `hf:${repo.name}${config === undefined ? "" : `/${config}`}`;
  return createTaskFromFiles(name, Object.fromEntries(files) as SplitFiles, options, readClassNames(card, config));
}

interface DatasetInfo {
  readonly config_name?: string;
  readonly features?: readonly {
    readonly name: string;
    readonly dtype?: { readonly class_label?: { readonly names?: Record<string, string> } };
  }[];
}

/** The metadata in the YAML block of a dataset's README. */
interface DatasetCard {
  readonly configs?: readonly {
    readonly config_name: string;
    readonly data_files?: readonly { readonly path: string | readonly string[] }[];
  }[];
  readonly dataset_info?: DatasetInfo | readonly DatasetInfo[];
}

function parseDatasetCard(readme: string): DatasetCard {
  const front = /^---\r?\n([\s\S]*?)\r?\n---/.exec(readme)?.[1];
  if (front === undefined) return {};
  try {
    return (parse(front) as DatasetCard | null) ?? {};
  } catch {
    // Without a valid card, the file names decide.
    return {};
  }
}

/**
 * Returns the files of a configuration: those listed in the card, else those in the folder with its
 * name.
 */
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
  const matchers = patterns.map(
    (pattern) => new RegExp(`^${pattern.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*+/g, ".*")}$`),
  );
  return tables.filter((path) => matchers.some((matcher) => matcher.test(path)));
}

/** Reads the names of integer classes by column from the card. */
function readClassNames(card: DatasetCard, config: string | undefined): Record<string, readonly string[]> {
  const infos = [card.dataset_info ?? []].flat() as readonly DatasetInfo[];
  const info = infos.find((entry) => entry.config_name === config) ?? infos[0];
  return Object.fromEntries(
    (info?.features ?? []).flatMap(({ name, dtype }) => {
      const names = dtype?.class_label?.names;
      return names === undefined ? [] : [[name, Object.values(names)]];
    }),
  );
}

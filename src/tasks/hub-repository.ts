import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { warn } from "../base/events.js";
import {
  describeNotCached,
  downloadHubFile,
  type HubFile,
  type HubSnapshot,
  listHubFiles,
  openHubSnapshot,
} from "../hub/hub-cache.js";
import type { ReadOptions } from "./parse-examples.js";
import { type DatasetSource, once } from "./task.js";

export interface HubReadOptions extends ReadOptions {
  /** A branch, tag or commit of the dataset on the hub. Default: main. */
  readonly revision?: string | undefined;
}

export interface DatasetRepository extends Pick<DatasetSource, "repository" | "revision"> {
  readonly snapshot: HubSnapshot;
  list(): Promise<readonly HubFile[]>;
  readCard(): Promise<DatasetCard>;
  /** Returns local paths. Before the first download, a message names the license. */
  download(files: readonly HubFile[]): Promise<string[]>;
}

const cardFile = "README.md";

export async function openDatasetRepository(
  label: string,
  name: string,
  { revision, onEvent }: HubReadOptions,
): Promise<DatasetRepository> {
  const snapshot = await openHubSnapshot({ type: "dataset", name, ...(revision !== undefined && { revision }) });
  const { endpoint } = snapshot.settings;
  const list = once(() => listHubFiles(snapshot));
  const readCard = once(async () => {
    const card = (await list()).find(({ path }) => path === cardFile);
    return card ? parseDatasetCard(await readFile(await downloadHubFile(snapshot, card), "utf8")) : {};
  });
  const nameLicense = once(async () =>
    warn(
      { onEvent },
      `${label}: downloading the dataset ${name} (commit ${snapshot.commit}). ` +
        `License: ${formatLicense(await readCard())}; see ${endpoint}/datasets/${name}.`,
    ),
  );
  return {
    repository: name,
    revision: snapshot.commit,
    snapshot,
    list,
    readCard,
    async download(files) {
      if (files.some(({ isCached }) => !isCached)) await nameLicense();
      const paths: string[] = [];
      for (const file of files) paths.push(await downloadHubFile(snapshot, file, { onEvent }));
      return paths;
    },
  };
}

export function describeMissingPart({ snapshot, repository }: DatasetRepository, part: string): string {
  if (!snapshot.online) return describeNotCached(snapshot.repo, snapshot.settings, part);
  const { commit } = snapshot;
  return `The dataset ${repository} has no Parquet file of ${part} at commit ${commit}. Pass another revision.`;
}

interface DatasetInfo {
  readonly config_name?: string;
  readonly features?: readonly {
    readonly name: string;
    readonly dtype?: { readonly class_label?: { readonly names?: Record<string, string> } };
  }[];
}

export interface DatasetCard {
  readonly license?: string | readonly string[];
  readonly license_name?: string;
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

function formatLicense({ license, license_name: name }: DatasetCard): string {
  const stated = [license ?? []].flat().map(String);
  if (typeof name === "string") stated.push(name);
  return stated.length > 0 ? stated.join(", ") : "none stated";
}

export function readCardClassNames(card: DatasetCard, config: string | undefined): Record<string, readonly string[]> {
  const infos = [card.dataset_info ?? []].flat() as readonly DatasetInfo[];
  const info = infos.find((entry) => entry.config_name === config) ?? infos[0];
  return Object.fromEntries(
    (info?.features ?? []).flatMap(({ name, dtype }) => {
      const names = dtype?.class_label?.names;
      return names === undefined ? [] : [[name, Object.values(names)]];
    }),
  );
}

import { parse } from "yaml";

interface DatasetInfo {
  readonly config_name?: string;
  readonly features?: readonly {
    readonly name: string;
    readonly dtype?: { readonly class_label?: { readonly names?: Record<string, string> } };
  }[];
}

/** The metadata in the YAML block of a dataset's README. */
export interface DatasetCard {
  readonly license?: string | readonly string[];
  readonly license_name?: string;
  readonly configs?: readonly {
    readonly config_name: string;
    readonly data_files?: readonly { readonly path: string | readonly string[] }[];
  }[];
  readonly dataset_info?: DatasetInfo | readonly DatasetInfo[];
}

export function parseDatasetCard(readme: string): DatasetCard {
  const front = /^---\r?\n([\s\S]*?)\r?\n---/.exec(readme)?.[1];
  if (front === undefined) return {};
  try {
    return (parse(front) as DatasetCard | null) ?? {};
  } catch {
    // Without a valid card, the file names decide.
    return {};
  }
}

/** The license as the card states it. */
export function formatLicense({ license, license_name: name }: DatasetCard): string {
  const stated = [license ?? []].flat().map(String);
  if (typeof name === "string") stated.push(name);
  return stated.length > 0 ? stated.join(", ") : "none stated";
}

/** Reads the names of integer classes by column from the card. */
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

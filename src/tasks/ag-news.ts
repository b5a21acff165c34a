import { join } from "node:path";
import type { Example } from "./example.js";
import { findDataset } from "./find-dataset.js";
import type { HubReadOptions } from "./hub-repository.js";
import { parseExamples } from "./parse-examples.js";
import { readTable } from "./read-table.js";
import { createTask, type Task } from "./task.js";

const labels = ["World", "Sports", "Business", "Sci/Tech"];

/** Loads AG News from train.csv and test.csv, or from the hub. A text is a title and its news. */
export async function loadAgNewsTask(data: string | undefined, options: HubReadOptions): Promise<Task> {
  const { folder, hub } = await findDataset(
    {
      name: "ag-news",
      folders: ["ag_news_csv", "ag_news", "ag-news"],
      markerFiles: ["train.csv"],
      instructions:
        "Expected train.csv and test.csv without a header (ag_news_csv of Zhang et al. 2015): " +
        "the class from 1 to 4, the title and the description.",
      hub: { repository: "fancyzhx/ag_news", folder: "data", splits: ["train", "test"], texts: ["text"], labels },
    },
    data,
    options,
  );
  const read = (split: string) => () =>
    hub ? hub.read(split) : readNews(join(folder, `${split}.csv`), `${split}.csv`, options);
  const splits = { train: read("train"), test: read("test") };
  return createTask({ name: "ag-news", labels, fields: ["news"], read: splits, source: hub?.source });
}

async function readNews(file: string, origin: string, options: HubReadOptions): Promise<Example[]> {
  const table = await readTable(file, ["label", "title", "description"]);
  // The hub joins both with a space, too.
  const rows = table.rows.map(({ values: { label, title = "", description = "" }, ...row }) => ({
    ...row,
    values: { label, text: `${title} ${description}` },
  }));
  const columns = { texts: ["text"], label: "label", values: labels.map((_, index) => String(index + 1)) };
  return parseExamples({ ...table, columns: ["text", "label"], rows }, columns, options, origin);
}

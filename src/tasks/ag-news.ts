import { join } from "node:path";
import type { BuiltInTask } from "./built-in-task.js";
import { parseExamples } from "./parse-examples.js";
import { readTable } from "./read-table.js";

export const agNews: BuiltInTask = {
  name: "ag-news",
  labels: ["World", "Sports", "Business", "Sci/Tech"],
  fields: ["news"],
  splits: ["train", "test"],
  folders: ["ag_news_csv", "ag_news", "ag-news"],
  markerFiles: ["train.csv"],
  instructions:
    "Expected train.csv and test.csv without a header (ag_news_csv of Zhang et al. 2015): " +
    "the class from 1 to 4, the title and the description.",
  hub: { repository: "fancyzhx/ag_news", folder: "data", texts: ["text"] },
  async read(folder, split, options) {
    const table = await readTable(join(folder, `${split}.csv`), ["label", "title", "description"]);
    // The hub joins both with a space, too.
    const rows = table.rows.map(({ values: { label, title = "", description = "" }, ...row }) => ({
      ...row,
      values: { label, text: `${title} ${description}` },
    }));
    const columns = { texts: ["text"], label: "label", values: ["1", "2", "3", "4"] };
    return parseExamples({ ...table, columns: ["text", "label"], rows }, columns, options, `${split}.csv`);
  },
};

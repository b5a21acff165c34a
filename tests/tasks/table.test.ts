import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseExamples, type ReadOptions } from "../../src/tasks/parse-examples.js";
import { readTable } from "../../src/tasks/read-table.js";
import { jsonLines, makeFolder } from "./folder.js";

const layout = { texts: ["text"], labelColumn: "label", values: ["0", "1"] };

async function read(name: string, content: string | Uint8Array, options: ReadOptions = {}) {
  const table = await readTable(join(await makeFolder({ [name]: content }), name));
  return parseExamples(table, layout, options, name);
}

const words = fc.string({ unit: "grapheme", maxLength: 12 }).filter((text) => text.trim() !== "");

describe("readTable", () => {
  it("reads back any CSV, with commas, quotes and newlines inside fields", async () => {
    const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
    await fc.assert(
      fc.asyncProperty(fc.array(words, { minLength: 1, maxLength: 5 }), async (texts) => {
        const examples = await read(
          "a.csv",
          `label,text\r\n${texts.map((text, i) => `${i % 2},${quote(text)}\r\n`).join("")}`,
        );
        expect(examples.map((example) => example.texts[0])).toEqual(texts.map((text) => text.trim()));
      }),
      { numRuns: 30 },
    );
  });

  it.each([
    ["a header of another system", 'text,label\r\n"good, if long",1\nbad,0\n'],
    ["rows of another system", 'text,label\n"good, if long","1"\r\nbad,0\r\n'],
    ["an old Macintosh", 'text,label\r"good, if long",1\rbad,0\r'],
  ])("reads a CSV with the line ends of %s", async (_, content) => {
    expect((await read("a.csv", content)).map(({ id, texts, label }) => [id, texts[0], label])).toEqual([
      ["a.csv:2", "good, if long", 1],
      ["a.csv:3", "bad", 0],
    ]);
  });

  it("takes the quotes of a TSV as they are", async () => {
    const examples = await read("a.tsv", 'text\tlabel\n"a" b\t1\n"open\t0\r\n\n');
    expect(examples).toEqual([
      { id: "a.tsv:2", texts: ['"a" b'], label: 1 },
      { id: "a.tsv:3", texts: ['"open'], label: 0 },
    ]);
  });

  it("reads JSON lines, a JSON array, semicolons and a byte-order mark alike", async () => {
    const items = [
      { text: "good", label: 1 },
      { text: "bad", label: 0 },
    ];
    const expected = [
      ["good", 1],
      ["bad", 0],
    ];
    for (const [name, content] of [
      ["a.jsonl", jsonLines(items)],
      ["a.json", JSON.stringify(items)],
      ["a.csv", "\uFEFFtext;label\ngood;1\nbad;0\n"],
      ["a.csv", "\uFEFFtext,label\ngood,1\nbad,0"],
    ] as const) {
      expect((await read(name, content)).map(({ texts, label }) => [texts[0], label])).toEqual(expected);
    }
  });

  it("reads Parquet in every usual compression, with its class names", async () => {
    for (const [name, rows] of [
      ["train", 40],
      ["validation", 3],
      ["test", 2],
    ] as const) {
      const table = await readTable(`tests/fixtures/tasks/${name}.parquet`);
      expect(table.rows).toHaveLength(rows);
      expect(table.columns).toEqual(["sentence", "label", "idx", "origin"]);
      expect(table.classNames).toEqual({ label: ["negative", "positive"] });
    }
    const plain = await readTable("tests/fixtures/tasks/plain.parquet");
    expect(plain.classNames).toEqual({});
    expect(() => parseExamples(plain, { ...layout, texts: ["sentence"] }, {}, "plain")).toThrow(
      /1 of 4 rows .*row 2 has no "sentence"/,
    );
  });
});

describe("bad data", () => {
  const refusals: [string, string, string | Uint8Array, RegExp][] = [
    ["an empty file", "a.csv", "", /holds no rows/],
    ["a header alone", "a.tsv", "text\tlabel\n", /holds no rows/],
    [
      "a wrong column",
      "a.csv",
      "texts,label\nx,1\n",
      /no column "text" \(did you mean "texts"\?\); its columns are texts, label/,
    ],
    ["a column given twice", "a.csv", "text,label,text\nx,1,y\n", /has 2 columns "text"; expected one/],
    [
      "an unknown label",
      "a.csv",
      "text,label\nx,1\ny,2\n",
      /1 of 2 rows .*line 3 has the label "2", which is none of 0, 1/,
    ],
    ["an empty text", "a.csv", "text,label\nx,1\n ,0\n", /line 3 has no "text"/],
    ["a missing label", "a.jsonl", '{"text":"x","label":1}\n\n{"text":"y"}\n', /line 3 has no "label"/],
    ["a short row", "a.tsv", "text\tlabel\nx\t1\ny\n", /line 3 has 1 fields where the header has 2/],
    ["broken JSON", "a.jsonl", '{"text":"x","label":1}\n{"text":\n', /line 2 is not JSON/],
    ["a bare value", "a.jsonl", '{"text":"x","label":1}\n7\n', /line 2 is not an object/],
    ["a JSON object", "a.json", "{}", /expected an array of objects/],
    ["an open quote", "a.csv", 'text,label\n"x,1\ny,0\n', /quotes do not match/],
    ["a stray quote", "a.csv", 'text,label\nx "y" z",1\n', /quotes do not match/],
    ["Latin-1", "a.csv", Buffer.from("text,label\ncaf\u00e9,1\n", "latin1"), /not UTF-8: line 2 .*iconv/],
    ["another ending", "a.xlsx", "text", /ends in \.tsv, \.csv/],
    ["no Parquet", "a.parquet", "not at all", /cannot read .*a\.parquet as Parquet/],
  ];
  it.each(refusals)("refuses %s", async (_, name, content, message) => {
    await expect(read(name, content)).rejects.toThrow(
      expect.objectContaining({ name: "UserError", message: expect.stringMatching(message) }),
    );
  });

  it("counts many bad rows and names the first ones", async () => {
    const lines = Array.from({ length: 9 }, (_, index) => `text ${index},${index < 2 ? 1 : 5}\n`).join("");
    await expect(read("a.csv", `text,label\n${lines}`)).rejects.toThrow(
      /7 of 9 rows .*line 4 .*line 8 .*and 2 more.*--skip-bad-rows/,
    );
  });

  it("leaves bad rows out where that is wanted, and says so", async () => {
    const notices: string[] = [];
    const options = { skipBadRows: true, onNotice: (message: string) => notices.push(message) };
    const examples = await read("a.csv", "text,label\nx,1\n,0\ny,0\nz,9\n", options);
    expect(examples.map((example) => example.id)).toEqual(["a.csv:2", "a.csv:4"]);
    expect(notices).toEqual([
      expect.stringMatching(/left out 2 of 4 rows: line 3 has no "text"; line 5 has the label "9"/),
    ]);
    await expect(read("a.csv", "text,label\n,0\n", options)).rejects.toThrow(/no row can be used/);
  });
});

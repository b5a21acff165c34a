import { Rng } from "../../dist/base/rng.js";

/** Random choices that depend only on a name. */
export class Random extends Rng {
  int(limit) {
    return this.integer(Math.max(1, limit));
  }
  pick(list) {
    return list[this.int(list.length)];
  }
  chance(probability) {
    return this.next() < probability;
  }
}

const numbers =
  "0 -0 -1 1 2 7 1.5 0.1 -0.5 1e-320 1e308 1e999 -1e999 255 65536 2147483647 4294967296 9007199254740993 1e21".split(
    " ",
  );
const strings = [
  ...["", " ", "\0", "a", "\ufeff", "\ud800", "\u2028", "e\u0301", "İ", "ß", "\t", "\n", "__proto__", "constructor"],
  ...["length", "then", "../../x", "/dev/zero", "NaN", "null", "true", "1e3", "[PAD]", "[UNK]", "##a", "<s>", "Ġ", "-"],
  ...["a".repeat(1000), "\u4e2d\u6587", "$&", "\\", '"', "<script>", "%s", "(a+)+$", "*", "\u{10ffff}", "./x.js"],
];
const rawMark = "@@raw:";

/** A value of any kind. Numbers that JSON cannot hold, and deep lists, are inserted as text. */
function createStrange(random, depth = 0) {
  switch (random.int(8)) {
    case 0:
      return null;
    case 1:
      return random.chance(0.5);
    case 2:
      return rawMark + random.pick(numbers);
    case 3:
      return random.pick(strings);
    case 4:
      return [];
    case 5:
      return {};
    case 6:
      return depth > 2 ? [] : Array.from({ length: random.int(4) }, () => createStrange(random, depth + 1));
    default: {
      const levels = random.pick([3, 50, 3000]);
      return rawMark + (random.chance(0.5) ? "[".repeat(levels) + "]".repeat(levels) : "1");
    }
  }
}

function listPaths(value, path = [], found = []) {
  found.push(path);
  if (found.length > 2000 || path.length > 10 || typeof value !== "object" || value === null) return found;
  for (const key of Object.keys(value).slice(0, 100)) listPaths(value[key], [...path, key], found);
  return found;
}

/** Changes one to three places of a JSON value. */
export function mutateValue(random, seed) {
  const root = { value: structuredClone(seed) };
  for (let count = 1 + random.int(3); count > 0; count--) {
    const paths = listPaths(root).slice(1);
    const path = random.pick(random.chance(0.5) ? paths.filter(({ length }) => length <= 3) : paths);
    if (path === undefined) break;
    const parent = path.slice(0, -1).reduce((at, key) => at[key], root);
    const key = path.at(-1);
    const value = parent[key];
    const set = (name, content) =>
      Object.defineProperty(parent, name, { value: content, enumerable: true, writable: true, configurable: true });
    switch (random.int(9)) {
      case 0:
        set(key, createStrange(random));
        break;
      case 1:
        if (parent !== root) Array.isArray(parent) ? parent.splice(Number(key), 1) : delete parent[key];
        break;
      case 2:
        set(key, rawMark + random.pick(numbers));
        break;
      case 3:
        set(key, typeof value === "string" ? value + random.pick(strings) : random.pick(strings));
        break;
      case 4:
        if (Array.isArray(parent)) parent.splice(Number(key), 0, ...new Array(1 + random.int(4)).fill(value));
        break;
      case 5:
        if (!Array.isArray(parent) && parent !== root) set(random.pick(strings), createStrange(random));
        break;
      case 6:
        set(key, structuredClone(random.pick(paths).reduce((at, part) => at[part], root)));
        break;
      case 7:
        set(key, typeof value === "number" ? value + random.pick([1, -1, 0.5]) : [value]);
        break;
      default:
        set(key, typeof value === "number" ? String(value) : typeof value === "boolean" ? !value : value);
    }
  }
  return root.value;
}

/** JSON text of a mutated value. */
export function toJson(value) {
  const text = JSON.stringify(value) ?? "null";
  return text.replace(/"@@raw:([^"]*)"/g, (_, raw) => raw);
}

/** Flips, cuts, repeats and inserts bytes. */
export function mutateBytes(random, seed) {
  let bytes = Buffer.from(seed);
  for (let count = 1 + random.int(4); count > 0; count--) {
    const at = random.int(bytes.length);
    const length = 1 + random.int(random.chance(0.2) ? 200 : 8);
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
    switch (random.int(7)) {
      case 0:
        if (bytes.length > 0) bytes[at] ^= 1 << random.int(8);
        break;
      case 1:
        if (bytes.length > 0) bytes[at] = random.int(256);
        break;
      case 2:
        if (random.chance(0.3)) bytes = Buffer.from(before);
        break;
      case 3:
        bytes = Buffer.concat([before, after.subarray(length)]);
        break;
      case 4:
        bytes = Buffer.concat([before, ...new Array(1 + random.int(5)).fill(after.subarray(0, length)), after]);
        break;
      case 5:
        bytes = Buffer.concat([before, Buffer.from(random.pick([...strings, ...numbers])), after]);
        break;
      default:
        bytes = Buffer.concat([before, Buffer.from(random.pick(numbers)), after.subarray(length)]);
    }
  }
  return bytes;
}

/** A JSON file, changed in its structure or in its bytes. */
export function mutateJson(random, bytes) {
  return random.chance(0.8)
    ? Buffer.from(toJson(mutateValue(random, JSON.parse(bytes.toString()))))
    : mutateBytes(random, bytes);
}

const characters = [
  ..."abz AZ09 .,!'-_éßİ中文한\u0301\u200d\ufeff\u00ad\u3000\0\ufffd",
  "[MASK]",
  "<pad>",
  "##ing",
  "n't",
  "\u{1f600}",
];

/** A text of ordinary and odd characters. */
export function createText(random, length = 60) {
  return Array.from({ length: random.int(length) }, () => random.pick(characters)).join("");
}

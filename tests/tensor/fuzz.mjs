// Calls the addon with random invalid arguments, in a separate process that must not crash.
// Arguments: the file of the addon, then the operators as JSON [[name, overload], …]. Prints a
// summary as one line of JSON.
import { createRequire } from "node:module";
import { inspect } from "node:util";

/** @typedef {import("../../src/tensor/native.js").Native} Native */
/** @typedef {import("../../src/tensor/native.js").NativeOperator} NativeOperator */

const [file = "", list = "[]"] = process.argv.slice(2);
const native = /** @type {Native} */ (createRequire(import.meta.url)(file));
const operators = /** @type {[string, string][]} */ (JSON.parse(list));

// A small random generator (xorshift), so that every run makes the same calls.
let word = 2463534242;
/** @param {number} n */
function below(n) {
  word ^= word << 13;
  word ^= word >>> 17;
  word ^= word << 5;
  return (word >>> 0) % n;
}
/**
 * @template T
 * @param {readonly T[]} items
 */
const pick = (items) => /** @type {T} */ (items[below(items.length)]);

const floatType = 6;
/** @type {number[]} */
const live = [];
for (const type of [0, 3, 4, 5, 6, 7, 11, 15]) {
  for (const shape of [[], [0], [3], [2, 3], [3, 2], [2, 2, 3], [2, 2, 2, 3], [1, 1, 1, 0]]) {
    const count = shape.reduce((product, size) => product * size, 1);
    live.push(
      native.create(
        Float32Array.from({ length: count }, (_, i) => i - 1),
        shape,
        floatType,
        type,
      ),
    );
  }
}
const freed = live.splice(5, 3);
native.release(freed);
const leaf = native.create(new Float32Array([1, 2, 3]), [3], floatType, floatType);
native.op("aten::requires_grad_")(leaf, true);
live.push(leaf);

// No number requests a few gigabytes, because that allocation would be attempted. From 2 ** 40 on,
// a tensor is rejected or empty.
const numbers = [
  ...[-1, 0, 1, 2, 3, -2, 0.5, 7, 1e300, Number.NaN, Number.POSITIVE_INFINITY],
  ...[2 ** 40, 2 ** 53 - 1, -(2 ** 53), 2 ** 63],
];
const texts = ["", "cpu", "cuda", "cuda:7", "meta", "none", "tanh", "ij,jk->ik", "ii", "->", "nonsense", "mean"];
const junk = [
  ...[undefined, null, true, "text", {}, [], [[]], [null], () => 1, Symbol("s"), 12n, new Date(0)],
  ...[new Array(4294967295), new Proxy([], {}), new Float32Array(3), ...freed],
  ...[4294967296 * 3 + 4e9, -4294967296, 1.5 * 4294967296],
];

const tensor = () => (below(12) === 0 ? pick(freed) : pick(live));
/** @param {() => unknown} one */
const several = (one) => Array.from({ length: below(4) }, one);

/**
 * Returns an argument that usually matches the type in the schema.
 * @param {string} type
 * @returns {unknown}
 */
function argument(type) {
  if (below(10) === 0) return pick(junk);
  if (type.endsWith("?")) return below(3) === 0 ? null : argument(type.slice(0, -1));
  if (/^Tensor(\([^)]*\))?$/.test(type)) return tensor();
  if (/^Tensor.*\[\]$/.test(type)) return several(tensor);
  if (/^(Sym)?[Ii]nt\[\d*\]$/.test(type)) return several(() => pick(numbers));
  if (/\[\d*\]$/.test(type)) return several(() => argument(type.replace(/\[\d*\]$/, "")));
  if (type === "bool") return below(2) === 0;
  if (type === "str" || type === "Device") return pick(texts);
  if (type === "ScalarType" || type === "Layout" || type === "MemoryFormat")
    return pick([0, 3, 4, 6, 7, 11, 46, 99, -1]);
  return pick(numbers);
}

/**
 * Returns the argument types of a schema: Tensor and Scalar for
 * "aten::add.Tensor(Tensor self, *, Scalar alpha=1) -> Tensor".
 * @param {string} schema
 */
function parseTypes(schema) {
  const inside = schema.slice(schema.indexOf("(") + 1, schema.lastIndexOf(") ->"));
  return inside
    .split(/,\s*(?![^([]*[)\]])/)
    .filter((part) => part && part !== "*")
    .map((part) => /** @type {string} */ (part.split(" ")[0]));
}

let calls = 0;
let errors = 0;
/** @type {string[]} */
const bad = [];
/**
 * Makes one call. An error must be an Error with one paragraph that names the operator, if there is
 * one.
 * @param {string} name
 * @param {readonly unknown[]} values the arguments; FUZZ_TRACE=1 prints them, to find the call that crashes the process
 * @param {() => unknown} body
 */
function attempt(name, values, body) {
  calls++;
  if (process.env.FUZZ_TRACE)
    process.stderr.write(`${name} ${inspect(values, { maxArrayLength: 9, breakLength: Infinity })}\n`);
  try {
    free(body());
  } catch (error) {
    errors++;
    const message = error instanceof Error ? error.message : String(error);
    const plain =
      error instanceof Error &&
      message.length > 0 &&
      !/Exception raised from|frame #\d|\.cpp:\d+ \(most recent/.test(message);
    if (!plain || !message.includes(name)) bad.push(`${name}: ${message}`);
  }
}
/** @param {unknown} value */
function free(value) {
  if (Array.isArray(value)) for (const item of value) free(item);
  else if (typeof value === "number" && value >= 4294967296) {
    try {
      native.release([value]);
    } catch {
      // A number that only looks like a handle.
    }
  }
}

for (const [name, overload] of operators) {
  /** @type {NativeOperator} */
  let call;
  try {
    call = native.op(`aten::${name}`, overload);
  } catch {
    continue; // not in this libtorch
  }
  const types = parseTypes(call.schema);
  for (let i = 0; i < 60; i++) {
    const values = types.map(argument);
    // Sometimes pass too few or too many arguments.
    const choice = below(8);
    if (choice === 0) values.length = below(values.length + 1);
    else if (choice === 1) values.push(...Array.from({ length: 1 + below(45) }, () => pick(junk)));
    attempt(`aten::${name}`, values, () => call(...values));
  }
}

const functions = /** @type {(keyof Native)[]} */ (Object.keys(native)).filter(
  (name) => !["setNumThreads", "emptyCpuCache", "release"].includes(name),
);
for (const name of functions) {
  for (let i = 0; i < 60; i++) {
    const values = several(() =>
      pick([...junk, ...numbers, ...texts, tensor(), several(tensor), several(() => pick(numbers))]),
    );
    attempt("", values, () => /** @type {(...args: unknown[]) => unknown} */ (native[name])(...values));
  }
}
for (const value of junk.concat([0.5, -3, 1e9])) {
  attempt("", [value], () => native.release(/** @type {number[]} */ (value)));
  attempt("", [value], () => native.setNumThreads(/** @type {number} */ (value)));
}
native.setGradEnabled(true);

process.stdout.write(`${JSON.stringify({ calls, errors, bad: bad.slice(0, 20), badCount: bad.length })}\n`);

// Loaded with --require: from a random call on, the file system fails as a full disk or a broken one
// does. CHAOS_FAIL is CODE:N, the error and the number of the first call that fails. CHAOS_FOLDER is
// the only folder that is affected. CHAOS_COUNT is a file to which the number of calls is appended.
const fs = require("node:fs");
const { syncBuiltinESMExports } = require("node:module");
const { resolve, sep } = require("node:path");

const [code = "", first = "0"] = (process.env.CHAOS_FAIL ?? "").split(":");
const folder = resolve(process.env.CHAOS_FOLDER ?? "/nowhere") + sep;
const { appendFileSync } = fs;
let calls = 0;

/** The paths of open file descriptors. @type {Map<number, string>} */
const opened = new Map();

/** @param {unknown} target a path or a file descriptor */
function isAffected(target) {
  const path = typeof target === "number" ? opened.get(target) : typeof target === "string" ? target : undefined;
  return path !== undefined && `${resolve(path)}${sep}`.startsWith(folder);
}

/** A full disk stays full. An I/O error happens once. */
function shouldFail() {
  calls++;
  if (code === "") return false;
  return code === "ENOSPC" ? calls >= Number(first) : calls === Number(first);
}

/** @param {string} call */
function createError(call) {
  const message = code === "ENOSPC" ? "no space left on device" : "i/o error";
  return Object.assign(new Error(`${code}: ${message}, ${call}`), { code, syscall: call });
}

/** The first half of what a failing call would have written. @param {unknown} data */
function halve(data) {
  if (typeof data === "string") return data.slice(0, data.length >> 1);
  return data instanceof Uint8Array ? data.subarray(0, data.length >> 1) : data;
}

/** @typedef {(...args: unknown[]) => unknown} Call */
const sync = /** @type {Record<string, Call>} */ (/** @type {unknown} */ (fs));
const promises = /** @type {Record<string, Call>} */ (/** @type {unknown} */ (fs.promises));

for (const name of [
  "writeSync",
  "writeFileSync",
  "appendFileSync",
  "renameSync",
  "linkSync",
  "fsyncSync",
  "mkdirSync",
]) {
  const original = /** @type {Call} */ (sync[name]);
  sync[name] = (...args) => {
    const target = name === "renameSync" || name === "linkSync" ? args[1] : args[0];
    if (!isAffected(target) || !shouldFail()) return original(...args);
    // A write that fails has often written a part.
    if (/write|append/.test(name)) original(args[0], halve(args[1]));
    throw createError(name);
  };
}
const { openSync, closeSync } = fs;
sync.openSync = (...args) => {
  const file = /** @type {Call} */ (openSync)(...args);
  opened.set(/** @type {number} */ (file), String(args[0]));
  return file;
};
sync.closeSync = (file) => {
  opened.delete(/** @type {number} */ (file));
  return /** @type {Call} */ (closeSync)(file);
};
for (const name of ["rename", "mkdir", "writeFile"]) {
  const original = /** @type {Call} */ (promises[name]);
  promises[name] = async (...args) => {
    if (isAffected(name === "rename" ? args[1] : args[0]) && shouldFail()) throw createError(name);
    return original(...args);
  };
}
const openFile = /** @type {Call} */ (promises.open);
promises.open = async (...args) => {
  const handle = /** @type {Record<string, Call>} */ (await openFile(...args));
  if (!isAffected(args[0])) return handle;
  for (const name of ["write", "writeFile", "sync"]) {
    const original = /** @type {Call} */ (handle[name]).bind(handle);
    handle[name] = async (...values) => {
      if (!shouldFail()) return original(...values);
      if (name !== "sync") await original(halve(values[0]));
      throw createError(name);
    };
  }
  return handle;
};
syncBuiltinESMExports();
process.on("exit", () => {
  const { CHAOS_COUNT } = process.env;
  if (CHAOS_COUNT) appendFileSync(CHAOS_COUNT, `${calls}\n`);
});

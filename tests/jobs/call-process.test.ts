import { existsSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, expect, test } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { CallProcess, type RemoteMethod } from "../../src/jobs/call-process.js";
import { packageRoot } from "../../src/tensor/native.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const library = join(packageRoot, "dist");

interface Methods {
  /** Computes without a pause until a file exists. */
  readonly compute: RemoteMethod<{ until: string }, string, "begun">;
  readonly fail: RemoteMethod<{ isUserError: boolean }, never>;
  readonly wait: RemoteMethod<object, string, "waiting">;
  readonly end: RemoteMethod<object, never>;
  readonly identify: RemoteMethod<object, number>;
}

const program = join(folder, "program.mjs");
writeFileSync(
  program,
  `import { existsSync } from "node:fs";
import { UserError } from ${JSON.stringify(join(library, "base/errors.js"))};
import { answerCalls } from ${JSON.stringify(join(library, "jobs/call-process.js"))};
answerCalls({
  async compute({ until }, { send }) {
    send("begun");
    await new Promise((resolve) => setImmediate(resolve));
    while (!existsSync(until));
    return "computed";
  },
  async fail({ isUserError }) {
    throw isUserError ? new UserError("expected a model") : new TypeError("a bug");
  },
  wait: (_, { signal, send }) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve("aborted"));
      send("waiting");
    }),
  end: () => process.exit(3),
  identify: async () => process.pid,
});
`,
);
const process_ = new CallProcess<Methods>(relative(library, program));
afterAll(() => process_.close());

test("this process goes on while the other one computes without a pause", async () => {
  const until = join(folder, "done");
  const order: string[] = [];
  await new Promise<void>((resolve, reject) => {
    const onEvent = (event: string): void => {
      order.push(event);
      // Only a process whose event loop is free gets here while the other one computes.
      setImmediate(() => {
        order.push("this process worked");
        writeFileSync(until, "");
      });
    };
    process_.call("compute", { until }, { onEvent }).then((result) => {
      order.push(result);
      resolve();
    }, reject);
  });
  expect(order).toEqual(["begun", "this process worked", "computed"]);
  expect(existsSync(until)).toBe(true);
});

test("errors of people and of programs arrive as such, and a call can be aborted", async () => {
  await expect(process_.call("fail", { isUserError: true })).rejects.toThrow(new UserError("expected a model"));
  const error: unknown = await process_.call("fail", { isUserError: false }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(UserError);
  const stop = new AbortController();
  const waited = process_.call("wait", {}, { signal: stop.signal, onEvent: () => stop.abort() });
  expect(await waited).toBe("aborted");
});

test("the end of the process is an answer to every call that waits, and the next call starts another one", async () => {
  const first = await process_.call("identify", {});
  const waiting = process_.call("wait", {});
  await expect(process_.call("end", {})).rejects.toThrow("exit code 3. Try again.");
  await expect(waiting).rejects.toThrow(UserError);
  expect(await process_.call("identify", {})).not.toBe(first);
});

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { describe, expect, it, vi } from "vitest";

/** Every operator that the source uses, collected while the modules load. */
const names = vi.hoisted(() => [] as [string, string][]);
vi.mock("../../src/tensor/operator.js", async (original) => {
  const actual = await original<typeof import("../../src/tensor/operator.js")>();
  const operator: typeof actual.operator = (name, overload = "") => {
    names.push([name, overload]);
    return actual.operator(name, overload);
  };
  return { ...actual, operator };
});

import { type AdamWSettings, defaultAdamW } from "../../src/nn/index.js";
import { getBuildFolder, native } from "../../src/tensor/native.js";
import { dtypeCodes } from "../../src/tensor/types.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const { float32, int64 } = dtypeCodes;
const floats = (...shape: number[]): number =>
  native().create(new Float32Array(shape.reduce((product, size) => product * size, 1)), shape, float32, float32);

function getMessage(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
    return (error as Error).message;
  }
  throw new Error("the call did not throw");
}

describe("random invalid calls", () => {
  // The test starts a process, which an emulated Node.js cannot.
  it.skipIf(process.env.TEMPER_TEST_NODE)(
    "never crash the process, and every error names its operator without a C++ backtrace",
    () => {
      expect(names.length).toBeGreaterThan(100);
      const fuzz = fileURLToPath(new URL("fuzz.mjs", import.meta.url));
      const result = spawnSync(process.execPath, [fuzz, join(getBuildFolder(), "temper.node"), JSON.stringify(names)], {
        encoding: "utf8",
      });
      expect({ status: result.status, signal: result.signal }, result.stderr.slice(-2000)).toEqual({
        status: 0,
        signal: null,
      });
      const summary = JSON.parse(result.stdout) as { calls: number; errors: number; bad: string[] };
      expect(summary.bad).toEqual([]);
      expect(summary.errors).toBeGreaterThan(5000);
      expect(summary.calls).toBeGreaterThan(summary.errors);
    },
  );
});

describe("error messages", () => {
  it("name the operator, the shapes and the dtypes", () => {
    const message = getMessage(() => native().op("aten::mm")(floats(2, 3), floats(4, 5)));
    expect(message).toMatch(/^aten::mm\(Float\[2, 3\], Float\[4, 5\]\): .*2x3 and 4x5/);
    expect(message).not.toMatch(/\n|Exception raised|frame #/);
  });

  it("show only the first tensors of a long list", () => {
    const many = Array.from({ length: 20 }, () => floats(2));
    const message = getMessage(() => native().op("aten::cat")([...many, floats(2, 2)], 0));
    expect(message.match(/Float\[2\]/g)?.length).toBe(8);
    expect(message).toContain("…");
  });

  it("name the argument that could not be converted", () => {
    const tensor = floats(2);
    const add = native().op("aten::add", "Tensor");
    expect(getMessage(() => add(tensor, null))).toBe(
      "aten::add.Tensor: argument other: expected a tensor, received null",
    );
    expect(getMessage(() => add(tensor, "x"))).toBe(
      "aten::add.Tensor: argument other: expected a tensor, received a string",
    );
    expect(getMessage(() => add(tensor))).toBe("aten::add.Tensor: argument other: missing");
    expect(getMessage(() => add(tensor, tensor, 1, 2))).toBe(
      "aten::add.Tensor: expected at most 3 arguments, received 4",
    );
    expect(getMessage(() => native().op("aten::sum", "dim_IntList")(tensor, [0.5], false))).toContain(
      "argument dim: expected an integer",
    );
    expect(getMessage(() => native().op("aten::zeros")([2], 99))).toMatch(
      /^aten::zeros: argument dtype: expected 0 to \d+, received 99$/,
    );
  });

  it("rethrow the error of a getter inside an array", () => {
    const list: number[] = [];
    Object.defineProperty(list, 0, {
      get: () => {
        throw new Error("mine");
      },
    });
    expect(getMessage(() => native().op("aten::zeros")(list))).toBe("mine");
  });

  it("name the libtorch version that lacks an operator", () => {
    expect(getMessage(() => native().op("aten::no_such", "Tensor"))).toMatch(
      /^operator aten::no_such\.Tensor is not in this libtorch \(\d+\.\d+\.\d+/,
    );
  });

  it("name a device that is unknown or missing", () => {
    const zeros = native().op("aten::zeros");
    expect(getMessage(() => zeros([2], float32, undefined, "toaster"))).toContain("toaster");
    expect(getMessage(() => zeros([2], float32, undefined, ""))).toContain("aten::zeros");
    if (native().devices().length === 0)
      expect(getMessage(() => zeros([2], float32, undefined, "cuda"))).toMatch(/cuda/i);
    expect(getMessage(() => native().seed("toaster", 1))).toContain("toaster");
  });
});

describe("handles", () => {
  it("are rejected after being freed, even if their slot is reused", () => {
    const first = floats(2);
    native().release([first]);
    const second = floats(3);
    expect(second % 2 ** 32).toBe(first % 2 ** 32); // the same slot, another generation
    expect(getMessage(() => native().describe(first))).toContain("was freed");
    expect(getMessage(() => native().release([first]))).toContain("was freed");
    expect(native().describe(second)).toEqual([float32, 0, -1, 3]);
    native().release([second]);
  });

  it("cannot be forged", () => {
    const real = floats(2);
    for (const forged of [
      0,
      1,
      -1,
      real + 0.5,
      real + 2 ** 32,
      real - 2 ** 32,
      2 ** 52 + 1e9,
      2 ** 53,
      Number.NaN,
      Number.POSITIVE_INFINITY,
    ])
      expect(getMessage(() => native().describe(forged))).toMatch(/not a tensor handle|was freed/);
    native().release([real]);
  });
});

describe("one thread", () => {
  it("owns the addon: other worker threads are refused clearly", async () => {
    native();
    const file = JSON.stringify(join(getBuildFolder(), "temper.node"));
    const code = `try { require(${file}); } catch (error) { require("node:worker_threads").parentPort.postMessage(
      { code: error.code, message: error.message }); }`;
    const worker = new Worker(code, { eval: true });
    const [message] = await once(worker, "message");
    expect(message).toEqual({
      code: "ERR_TEMPER_THREAD",
      message: expect.stringContaining("Another thread of this process already uses Temper"),
    });
    await worker.terminate();
  });
});

describe("handles that were reused a million times", () => {
  it("never refer to another tensor", () => {
    const early = floats(0);
    native().release([early]);
    // Every tensor takes the slot that was freed last, until the slot is retired.
    for (let reuses = 0; ; reuses++) {
      const handle = floats(0);
      native().release([handle]);
      if (handle === early || reuses > 2 ** 20) expect.fail("a handle was used twice");
      if (handle % 2 ** 32 !== early % 2 ** 32) break;
    }
    expect(getMessage(() => native().describe(early))).toContain("was freed");
  });
});

describe("a detached buffer", () => {
  it("is never read", () => {
    const message = "expected a typed array, received one whose buffer was transferred away";
    const detached = new Float32Array(4);
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    expect(getMessage(() => native().create(detached, [0], float32, float32))).toBe(message);
    expect(getMessage(() => native().write(floats(0), detached))).toBe(message);
    // A getter in the shape transfers the buffer after the call has begun.
    const data = new Float32Array(1024);
    const shape = [0];
    Object.defineProperty(shape, 0, {
      get: () => {
        structuredClone(data.buffer, { transfer: [data.buffer] });
        return 1024;
      },
    });
    expect(getMessage(() => native().create(data, shape, float32, float32))).toBe(message);
  });
});

describe("nested control groups", () => {
  const root = join(folder, "cgroup");
  const put = (group: string, files: Record<string, string | number>): void => {
    mkdirSync(join(root, group), { recursive: true });
    for (const [name, content] of Object.entries(files)) writeFileSync(join(root, group, name), `${content}\n`);
  };
  const remaining = (membership: string): number => {
    writeFileSync(join(folder, "membership"), membership);
    return native().controlGroupMemory(join(folder, "membership"), root);
  };

  it("are limited by the smallest limit around them", () => {
    put("slurm/job", { "memory.max": 1000, "memory.current": 900, "memory.stat": "anon 5\ninactive_file 50" });
    put("slurm/job/step", { "memory.max": "max", "memory.current": 100 });
    put("slurm", { "memory.max": 5000, "memory.current": 1000 });
    expect(remaining("0::/slurm/job/step")).toBe(150);
    expect(remaining("0::/slurm")).toBe(4000);
    expect(remaining("0::/")).toBeGreaterThan(1e18);
    expect(remaining("0::/../elsewhere\nnonsense")).toBeGreaterThan(1e18);
    put("memory/docker/x", { "memory.limit_in_bytes": 700, "memory.usage_in_bytes": 300 });
    put("memory/docker", { "memory.limit_in_bytes": 600, "memory.usage_in_bytes": 350 });
    expect(remaining("3:cpu,memory:/docker/x\n1:name=systemd:/docker/x")).toBe(250);
    put(".", { "memory.max": 90, "memory.current": 30 });
    expect(remaining("")).toBe(60);
  });
});

describe("sizes that exceed the memory", () => {
  const before = () => native().memoryStats().bytes;

  it("are rejected before the allocation", () => {
    const bytes = before();
    const zeros = native().op("aten::zeros");
    expect(getMessage(() => zeros([2 ** 20, 2 ** 20]))).toMatch(
      /a tensor of 4096\.0 GiB does not fit: [\d.]+ GiB of memory are free/,
    );
    for (const shape of [[2 ** 53 - 1], [2 ** 40, 2 ** 40], [2 ** 31, 2 ** 31, 2 ** 31], [-1], [2, -3]])
      expect(getMessage(() => zeros(shape))).toContain("aten::zeros");
    expect(getMessage(() => native().op("aten::arange")(1e15, int64))).toContain("does not fit");
    // A refused request is not a peak.
    expect(native().memoryStats().peakBytes).toBeLessThan(2 ** 40);
    expect(native().memoryStats().bytes).toBe(bytes);
  });

  it("of a sparse array are rejected at the first hole", () => {
    expect(getMessage(() => native().op("aten::zeros")(new Array(2 ** 32 - 1)))).toContain(
      "expected an integer, received undefined",
    );
  });
});

describe("typed arrays", () => {
  it("of every kind have the bytes that they say, and unknown kinds are refused", () => {
    const kinds = [Int8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array];
    for (const Kind of [...kinds, Float64Array]) {
      const data = new Kind(6);
      const bytes = native().create(data as never, [data.byteLength], dtypeCodes.uint8, dtypeCodes.uint8);
      native().release([bytes]);
    }
    const half = (globalThis as Record<string, unknown>).Float16Array as (new (length: number) => never) | undefined;
    if (!half) return; // Node 20 has none.
    expect(getMessage(() => native().create(new half(6), [12], dtypeCodes.uint8, dtypeCodes.uint8))).toContain(
      "expected a typed array of a known kind",
    );
  });
});

describe("the fused optimizer", () => {
  const update = (sizes: number[][], settings: AdamWSettings = defaultAdamW): string => {
    const [parameters, gradients, first, second] = sizes.map((list) => list.map((elements) => floats(elements)));
    const steps = (sizes[0] as number[]).map(() => floats());
    const { beta1, beta2, epsilon } = settings;
    const call = native().op("aten::_fused_adamw_", "tensor_lr");
    return getMessage(() =>
      call(parameters, gradients, first, second, [], steps, floats(), beta1, beta2, 0, epsilon, false, false),
    );
  };
  it("never reads past the end of a tensor", () => {
    const size = 3_000_000;
    expect(update([[size], [2], [size], [size]])).toContain(
      "expected contiguous tensors of the same shape, received [3000000] and [2]",
    );
    expect(update([[size], [size], [size], [1]])).toContain("received [3000000] and [1]");
    expect(update([[3, 3], [3], [3, 3], [3, 3]])).toContain("expected lists of 2 tensors, received grads of 1");
    expect(update([[3], [3], [3], []])).toContain("expected lists of 1 tensors, received exp_avg_sqs of 0");
  });

  it("rejects lists of unequal length, also of step counts and maxima", () => {
    const call = native().op("aten::_fused_adamw_", "tensor_lr");
    const run = (maxima: number[], steps: number[], amsgrad: boolean): string => {
      const lists = [0, 1, 2, 3].map(() => [floats(3), floats(3)]);
      return getMessage(() => call(...lists, maxima, steps, floats(), 0.9, 0.999, 0, 1e-8, amsgrad, false));
    };
    expect(run([], [floats()], false)).toContain("expected lists of 2 tensors, received state_steps of 1");
    expect(run([], [floats(), floats(4)], false)).toContain("expected one float per step count, received Float[4]");
    expect(run([], [floats(), floats()], true)).toContain("expected lists of 2 tensors, received max_exp_avg_sqs of 0");
    expect(run([floats(3)], [floats(), floats()], false)).toContain("received max_exp_avg_sqs of 1");
  });

  it("rejects a learning rate that is not one number", () => {
    const lists = [0, 1, 2, 3].map(() => [floats(3)]);
    for (const rate of [floats(0), floats(2)])
      expect(
        getMessage(() =>
          native().op(
            "aten::_fused_adamw_",
            "tensor_lr",
          )(...[...lists, [], [floats()], rate, 0.9, 0.999, 0, 1e-8, false, false]),
        ),
      ).toContain("expected one number as lr");
  });
});

describe("the runtime", () => {
  it("names the libtorch that is loaded", () => {
    const { libtorch, library, configuration } = native().versions();
    expect(libtorch).toMatch(/^\d+\.\d+/);
    expect(library).toMatch(/libtorch_cpu/);
    expect(configuration).toContain("PyTorch");
  });

  it("sets and returns the number of threads", () => {
    const threads = native().getNumThreads();
    native().setNumThreads(1);
    expect(native().getNumThreads()).toBe(1);
    native().setNumThreads(threads);
    expect(getMessage(() => native().setNumThreads(0))).toBe("expected 1 to 1024 threads, received 0");
  });
});

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";

/** Every operator that the source asks for, noted as the modules load. */
const names = vi.hoisted(() => [] as [string, string][]);
vi.mock("../../src/tensor/operator.js", async (original) => {
  const door = await original<typeof import("../../src/tensor/operator.js")>();
  const operator: typeof door.operator = (name, overload = "") => {
    names.push([name, overload]);
    return door.operator(name, overload);
  };
  return { ...door, operator };
});

import { type AdamWSettings, defaultAdamW } from "../../src/nn/index.js";
import { getBuildFolder, native } from "../../src/tensor/native.js";
import { dtypeCodes } from "../../src/tensor/types.js";

const { float32, int64 } = dtypeCodes;
const floats = (...shape: number[]): number =>
  native().create(new Float32Array(shape.reduce((product, size) => product * size, 1)), shape, float32, float32);

function messageOf(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
    return (error as Error).message;
  }
  throw new Error("the call was taken");
}

describe("a storm of bad calls", () => {
  it("ends no process, and each error names its operator without a C++ backtrace", () => {
    expect(names.length).toBeGreaterThan(100);
    const storm = fileURLToPath(new URL("storm.mjs", import.meta.url));
    const result = spawnSync(process.execPath, [storm, join(getBuildFolder(), "temper.node"), JSON.stringify(names)], {
      encoding: "utf8",
    });
    expect({ status: result.status, signal: result.signal }, result.stderr.slice(-2000)).toEqual({
      status: 0,
      signal: null,
    });
    const seen = JSON.parse(result.stdout) as { calls: number; errors: number; bad: string[] };
    expect(seen.bad).toEqual([]);
    expect(seen.errors).toBeGreaterThan(5000);
    expect(seen.calls).toBeGreaterThan(seen.errors);
  });
});

describe("messages", () => {
  it("name the operator, the shapes and the types", () => {
    const message = messageOf(() => native().op("aten::mm")(floats(2, 3), floats(4, 5)));
    expect(message).toMatch(/^aten::mm\(Float\[2, 3\], Float\[4, 5\]\): .*2x3 and 4x5/);
    expect(message).not.toMatch(/\n|Exception raised|frame #/);
  });

  it("show the first tensors of a long list only", () => {
    const many = Array.from({ length: 20 }, () => floats(2));
    const message = messageOf(() => native().op("aten::cat")([...many, floats(2, 2)], 0));
    expect(message.match(/Float\[2\]/g)?.length).toBe(8);
    expect(message).toContain("…");
  });

  it("name the argument that could not be converted", () => {
    const tensor = floats(2);
    const add = native().op("aten::add", "Tensor");
    expect(messageOf(() => add(tensor, null))).toBe(
      "aten::add.Tensor: argument other: expected a tensor, received null",
    );
    expect(messageOf(() => add(tensor, "x"))).toBe(
      "aten::add.Tensor: argument other: expected a tensor, received a string",
    );
    expect(messageOf(() => add(tensor))).toBe("aten::add.Tensor: argument other: missing");
    expect(messageOf(() => add(tensor, tensor, 1, 2))).toBe("aten::add.Tensor: takes 3 arguments, received 4");
    expect(messageOf(() => native().op("aten::sum", "dim_IntList")(tensor, [0.5], false))).toContain(
      "argument dim: expected an integer",
    );
    expect(messageOf(() => native().op("aten::zeros")([2], 99))).toMatch(
      /^aten::zeros: argument dtype: expected 0 to \d+, received 99$/,
    );
  });

  it("pass on what a getter inside an array throws", () => {
    const list: number[] = [];
    Object.defineProperty(list, 0, {
      get: () => {
        throw new Error("mine");
      },
    });
    expect(messageOf(() => native().op("aten::zeros")(list))).toBe("mine");
  });

  it("say which libtorch lacks an operator", () => {
    expect(messageOf(() => native().op("aten::no_such", "Tensor"))).toMatch(
      /^operator aten::no_such\.Tensor is not in this libtorch \(\d+\.\d+\.\d+/,
    );
  });

  it("tell that a device is unknown or absent", () => {
    const zeros = native().op("aten::zeros");
    expect(messageOf(() => zeros([2], float32, undefined, "toaster"))).toContain("toaster");
    expect(messageOf(() => zeros([2], float32, undefined, ""))).toContain("aten::zeros");
    if (native().devices().length === 0)
      expect(messageOf(() => zeros([2], float32, undefined, "cuda"))).toMatch(/cuda/i);
    expect(messageOf(() => native().seed("toaster", 1))).toContain("toaster");
  });
});

describe("handles", () => {
  it("are refused once freed, also where their slot holds another tensor by then", () => {
    const first = floats(2);
    native().release([first]);
    const second = floats(3);
    expect(second % 2 ** 32).toBe(first % 2 ** 32); // the same slot, another generation
    expect(messageOf(() => native().facts(first))).toContain("was freed");
    expect(messageOf(() => native().release([first]))).toContain("was freed");
    expect(native().facts(second)).toEqual([float32, 0, -1, 3]);
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
      expect(messageOf(() => native().facts(forged))).toMatch(/not a tensor handle|was freed/);
    native().release([real]);
  });

  it("of an alias are freed on their own", () => {
    const real = floats(2);
    const alias = native().alias(real);
    expect(native().address(alias)).toBe(native().address(real));
    native().release([real]);
    expect(native().facts(alias)).toEqual([float32, 0, -1, 2]);
    native().release([alias]);
  });
});

describe("sizes beyond the machine", () => {
  const before = () => native().memory().bytes;

  it("are refused before they are tried", () => {
    const bytes = before();
    const zeros = native().op("aten::zeros");
    const started = performance.now();
    expect(messageOf(() => zeros([2 ** 20, 2 ** 20]))).toMatch(
      /a tensor of 4096\.0 GiB does not fit: [\d.]+ GiB of memory are free/,
    );
    for (const shape of [[2 ** 53 - 1], [2 ** 40, 2 ** 40], [2 ** 31, 2 ** 31, 2 ** 31], [-1], [2, -3]])
      expect(messageOf(() => zeros(shape))).toContain("aten::zeros");
    expect(messageOf(() => native().op("aten::arange")(1e15, int64))).toContain("does not fit");
    expect(performance.now() - started).toBeLessThan(5000);
    expect(native().memory().bytes).toBe(bytes);
  });

  it("of holes in an array are noticed at the first", () => {
    expect(messageOf(() => native().op("aten::zeros")(new Array(2 ** 32 - 1)))).toContain(
      "expected an integer, received undefined",
    );
  });
});

describe("the fused optimiser", () => {
  const update = (sizes: number[][], settings: AdamWSettings = defaultAdamW): string => {
    const [parameters, gradients, first, second] = sizes.map((list) => list.map((size) => floats(size)));
    const steps = (sizes[0] as number[]).map(() => floats());
    const { beta1, beta2, epsilon } = settings;
    const call = native().op("aten::_fused_adamw_", "tensor_lr");
    return messageOf(() =>
      call(parameters, gradients, first, second, [], steps, floats(), beta1, beta2, 0, epsilon, false, false),
    );
  };
  const there = (() => {
    try {
      return Boolean(native().op("aten::_fused_adamw_", "tensor_lr"));
    } catch {
      return false;
    }
  })();

  it.skipIf(!there)("never reads beyond a tensor's end (skipped where libtorch has none)", () => {
    const whole = 3_000_000;
    expect(update([[whole], [2], [whole], [whole]])).toContain(
      "expected contiguous tensors of the same shape, received [3000000] and [2]",
    );
    expect(update([[whole], [whole], [whole], [1]])).toContain("received [3000000] and [1]");
    expect(update([[3, 3], [3], [3, 3], [3, 3]])).toContain("expected lists of 2 tensors, received one of 1");
    expect(update([[3], [3], [3], []])).toContain("expected lists of 1 tensors, received one of 0");
  });
});

describe("facts of the machine", () => {
  it("name the libtorch that was really loaded", () => {
    const { libtorch, library, configuration } = native().versions();
    expect(libtorch).toMatch(/^\d+\.\d+/);
    expect(library).toMatch(/libtorch_cpu/);
    expect(configuration).toContain("PyTorch");
  });

  it("set and tell the number of threads", () => {
    const threads = native().threads();
    native().setThreads(1);
    expect(native().threads()).toBe(1);
    native().setThreads(threads);
    expect(messageOf(() => native().setThreads(0))).toBe("expected 1 to 1024 threads, received 0");
  });
});

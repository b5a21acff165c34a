import { describe, expect, it } from "vitest";
import { arange, type DataType, empty, fromBytes, full, ones, scope, tensor, zeros } from "../../src/tensor/index.js";
import { native } from "../../src/tensor/native.js";
import { dtypeCodes } from "../../src/tensor/types.js";

/** The bits of a float as float16 (numbers that it holds exactly). */
const halfBits = { "0": 0x0000, "1": 0x3c00, "-2": 0xc000, "0.5": 0x3800, "65504": 0x7bff } as const;
const bfloatBits = { "0": 0x0000, "1": 0x3f80, "-2": 0xc000, "0.5": 0x3f00 } as const;

describe("typed arrays in and out", () => {
  const check = (values: ArrayBufferView, type: DataType | undefined, becomes: DataType, reads: number[]): void =>
    scope(() => {
      const made = tensor(values, undefined, type ? { dtype: type } : {});
      expect(made.dtype).toBe(becomes);
      expect(made.shape).toEqual([reads.length]);
      expect([...made.toFloat32Array()]).toEqual(reads);
    });

  it("floats of 32 and 64 bits become float32, or what is named", () => {
    check(new Float32Array([1.5, -2, 0]), undefined, "float32", [1.5, -2, 0]);
    check(new Float64Array([1.5, -2, 0]), undefined, "float32", [1.5, -2, 0]);
    check(new Float64Array([1.5, -2, 0]), "float64", "float64", [1.5, -2, 0]);
    check(new Float32Array([1.5, -2, 0]), "bfloat16", "bfloat16", [1.5, -2, 0]);
    check(new Float32Array([1.5, -2, 0]), "float16", "float16", [1.5, -2, 0]);
  });

  it("float64 keeps all its bits", () =>
    scope(() => {
      const made = tensor(new Float64Array([Math.PI, 1e-300]), [2], { dtype: "float64" });
      expect([...new Float64Array(made.toBytes().buffer)]).toEqual([Math.PI, 1e-300]);
    }));

  it("16-bit words are float16 or bfloat16, as named", () => {
    check(Uint16Array.from(Object.values(halfBits)), "float16", "float16", Object.keys(halfBits).map(Number));
    check(Uint16Array.from(Object.values(bfloatBits)), "bfloat16", "bfloat16", Object.keys(bfloatBits).map(Number));
    expect(() => tensor(new Uint16Array(2))).toThrow("Uint16Array with type float16 or bfloat16");
  });

  it("32-bit integers become int64, for indices", () =>
    scope(() => {
      const made = tensor(new Int32Array([-7, 0, 2 ** 31 - 1]));
      expect(made.dtype).toBe("int64");
      expect([...made.toInt32Array()]).toEqual([-7, 0, 2 ** 31 - 1]);
      expect([...new BigInt64Array(made.toBytes().buffer)]).toEqual([-7n, 0n, 2147483647n]);
      expect(tensor(new BigInt64Array([2n ** 40n])).item()).toBe(2 ** 40);
    }));

  it("bytes become bool: anything but 0 is true", () =>
    scope(() => {
      const made = tensor(new Uint8Array([0, 1, 200]));
      expect(made.dtype).toBe("bool");
      expect([...made.toBytes()]).toEqual([0, 1, 1]);
      expect(tensor(new Uint8Array([200]), [1], { dtype: "uint8" }).item()).toBe(200);
    }));

  it("plain numbers become float32", () =>
    scope(() => expect([...tensor([1, 2, 3, 4], [2, 2]).toFloat32Array()]).toEqual([1, 2, 3, 4])));

  it("a view into the middle of a buffer gives its own part", () =>
    scope(() => {
      const whole = Float32Array.from({ length: 10 }, (_, i) => i);
      expect([...tensor(whole.subarray(3, 6)).toFloat32Array()]).toEqual([3, 4, 5]);
      expect([...fromBytes(new Uint8Array(whole.buffer, 8, 8), [2], "float32").toFloat32Array()]).toEqual([2, 3]);
    }));

  it("what is read is a copy, in row-major order whatever the strides", () =>
    scope(() => {
      const made = tensor([1, 2, 3, 4, 5, 6], [2, 3]);
      expect([...made.t().toFloat32Array()]).toEqual([1, 4, 2, 5, 3, 6]);
      made.toFloat32Array()[0] = 99;
      expect(made.toFloat32Array()[0]).toBe(1);
    }));

  it("empty and zero-dimensional tensors pass both ways", () =>
    scope(() => {
      expect([...tensor(new Float32Array(0)).toFloat32Array()]).toEqual([]);
      expect(zeros([0, 5]).shape).toEqual([0, 5]);
      expect(tensor(new Float32Array([4]), []).item()).toBe(4);
    }));

  it("refuses a shape that does not fit, and arrays it does not know", () => {
    expect(() => tensor(new Float32Array(6), [2, 2])).toThrow("expected 4 elements for that shape, received 6");
    expect(() => tensor(new Float32Array(6), [-2, -3])).toThrow("negative size -2");
    expect(() => tensor(new Float32Array(0), [2 ** 40, 2 ** 40])).toThrow("elements for that shape, received 0");
    expect(() => tensor(new Uint8ClampedArray(2))).toThrow("Uint8ClampedArray");
    expect(() => tensor("text" as unknown as Float32Array)).toThrow(TypeError);
    expect(() => fromBytes(new Uint8Array(7), [2], "float32")).toThrow("expected 2 elements");
  });
});

describe("write", () => {
  it("fills a tensor in place", () =>
    scope(() => {
      const target = zeros([2, 2]);
      const address = native().address(target.handle);
      expect([...target.write(new Float32Array([1, 2, 3, 4])).toFloat32Array()]).toEqual([1, 2, 3, 4]);
      expect(native().address(target.handle)).toBe(address);
      expect([
        ...zeros([3], { dtype: "int64" })
          .write(new Int32Array([5, -6, 7]))
          .toInt32Array(),
      ]).toEqual([5, -6, 7]);
      expect([
        ...zeros([1], { dtype: "float16" })
          .write(new Uint16Array([0x3c00]))
          .toFloat32Array(),
      ]).toEqual([1]);
      expect([
        ...zeros([1])
          .write(new Uint8Array([0, 0, 128, 63]))
          .toFloat32Array(),
      ]).toEqual([1]);
    }));

  it("takes no array of another type or size, and no tensor that is not contiguous", () =>
    scope(() => {
      expect(() => zeros([2]).write(new Int32Array(2))).toThrow("cannot fill a tensor of type Float");
      expect(() => zeros([2], { dtype: "int64" }).write(new Float32Array(2))).toThrow(
        "cannot fill a tensor of type Long",
      );
      expect(() => zeros([2]).write(new Float32Array(3))).toThrow(
        "expected 8 bytes for that shape and type, received 12",
      );
      expect(() => zeros([2, 3]).t().write(new Float32Array(6))).toThrow("only contiguous CPU tensors");
      expect(() => zeros([2]).write(new DataView(new ArrayBuffer(8)))).toThrow("expected a typed array");
    }));
});

describe("memory of tensors", () => {
  it("begins at multiples of 64 bytes, whatever the size", () =>
    scope(() => {
      for (const size of [1, 3, 17, 1000, 65_537, 1_500_001]) {
        expect(native().address(tensor(new Float32Array(size)).handle) % 64).toBe(0);
        expect(native().address(fromBytes(new Uint8Array(2 * size), [size], "float16", "float32").handle) % 64).toBe(0);
        expect(native().address(empty([size]).handle) % 64).toBe(0);
      }
    }));
});

describe("factories", () => {
  it("fill with what they say, in the type that is asked for", () =>
    scope(() => {
      expect([...ones([2]).toFloat32Array()]).toEqual([1, 1]);
      expect([...full([2], 2.5).toFloat32Array()]).toEqual([2.5, 2.5]);
      expect([...arange(3).toInt32Array()]).toEqual([0, 1, 2]);
      for (const type of Object.keys(dtypeCodes) as DataType[]) expect(zeros([1], { dtype: type }).dtype).toBe(type);
    }));

  it("a whole number leaves an integer tensor an integer one, a fraction does not", () =>
    scope(() => {
      expect(arange(3).mul(2).dtype).toBe("int64");
      expect(arange(3).mul(0.5).dtype).toBe("float32");
    }));
});

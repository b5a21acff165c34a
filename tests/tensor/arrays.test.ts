import { describe, expect, it } from "vitest";
import { arange, type DType, empty, fromBytes, full, ones, scope, tensor, zeros } from "../../src/tensor/index.js";
import { native } from "../../src/tensor/native.js";
import { dtypeCodes } from "../../src/tensor/types.js";

/** Numbers that float16 represents exactly, with their bits. */
const halfBits = { "0": 0x0000, "1": 0x3c00, "-2": 0xc000, "0.5": 0x3800, "65504": 0x7bff } as const;
const bfloatBits = { "0": 0x0000, "1": 0x3f80, "-2": 0xc000, "0.5": 0x3f00 } as const;

describe("tensors from and to typed arrays", () => {
  const check = (values: ArrayBufferView, dtype: DType | undefined, expectedDType: DType, expected: number[]): void =>
    scope(() => {
      const created = tensor(values, undefined, dtype ? { dtype } : {});
      expect(created.dtype).toBe(expectedDType);
      expect(created.shape).toEqual([expected.length]);
      expect([...created.toFloat32Array()]).toEqual(expected);
    });

  it("32-bit and 64-bit floats become float32 or the given dtype", () => {
    check(new Float32Array([1.5, -2, 0]), undefined, "float32", [1.5, -2, 0]);
    check(new Float64Array([1.5, -2, 0]), undefined, "float32", [1.5, -2, 0]);
    check(new Float64Array([1.5, -2, 0]), "float64", "float64", [1.5, -2, 0]);
    check(new Float32Array([1.5, -2, 0]), "bfloat16", "bfloat16", [1.5, -2, 0]);
    check(new Float32Array([1.5, -2, 0]), "float16", "float16", [1.5, -2, 0]);
  });

  it("float64 keeps all bits", () =>
    scope(() => {
      const created = tensor(new Float64Array([Math.PI, 1e-300]), [2], { dtype: "float64" });
      expect([...new Float64Array(created.toBytes().buffer)]).toEqual([Math.PI, 1e-300]);
    }));

  it("16-bit words become float16 or bfloat16, as given", () => {
    check(Uint16Array.from(Object.values(halfBits)), "float16", "float16", Object.keys(halfBits).map(Number));
    check(Uint16Array.from(Object.values(bfloatBits)), "bfloat16", "bfloat16", Object.keys(bfloatBits).map(Number));
    expect(() => tensor(new Uint16Array(2))).toThrow("Uint16Array with dtype float16 or bfloat16");
  });

  it("32-bit integers become int64, for indices", () =>
    scope(() => {
      const created = tensor(new Int32Array([-7, 0, 2 ** 31 - 1]));
      expect(created.dtype).toBe("int64");
      expect([...created.toInt32Array()]).toEqual([-7, 0, 2 ** 31 - 1]);
      expect([...new BigInt64Array(created.toBytes().buffer)]).toEqual([-7n, 0n, 2147483647n]);
      expect(tensor(new BigInt64Array([2n ** 40n])).item()).toBe(2 ** 40);
    }));

  it("bytes become bool; everything except 0 is true", () =>
    scope(() => {
      const created = tensor(new Uint8Array([0, 1, 200]));
      expect(created.dtype).toBe("bool");
      expect([...created.toBytes()]).toEqual([0, 1, 1]);
      expect(tensor(new Uint8Array([200]), [1], { dtype: "uint8" }).item()).toBe(200);
    }));

  it("plain numbers become float32", () =>
    scope(() => expect([...tensor([1, 2, 3, 4], [2, 2]).toFloat32Array()]).toEqual([1, 2, 3, 4])));

  it("a view of a buffer uses only its part", () =>
    scope(() => {
      const all = Float32Array.from({ length: 10 }, (_, i) => i);
      expect([...tensor(all.subarray(3, 6)).toFloat32Array()]).toEqual([3, 4, 5]);
      expect([...fromBytes(new Uint8Array(all.buffer, 8, 8), [2], "float32").toFloat32Array()]).toEqual([2, 3]);
    }));

  it("reading returns a row-major copy for any strides", () =>
    scope(() => {
      const created = tensor([1, 2, 3, 4, 5, 6], [2, 3]);
      expect([...created.t().toFloat32Array()]).toEqual([1, 4, 2, 5, 3, 6]);
      created.toFloat32Array()[0] = 99;
      expect(created.toFloat32Array()[0]).toBe(1);
    }));

  it("empty and zero-dimensional tensors work in both directions", () =>
    scope(() => {
      expect([...tensor(new Float32Array(0)).toFloat32Array()]).toEqual([]);
      expect(zeros([0, 5]).shape).toEqual([0, 5]);
      expect(tensor(new Float32Array([4]), []).item()).toBe(4);
    }));

  it("rejects a wrong shape and unsupported arrays", () => {
    expect(() => tensor(new Float32Array(6), [2, 2])).toThrow("expected 4 elements for that shape, received 6");
    expect(() => tensor(new Float32Array(6), [-2, -3])).toThrow("negative size -2");
    expect(() => tensor(new Float32Array(0), [2 ** 40, 2 ** 40])).toThrow("elements for that shape, received 0");
    expect(() => tensor(new Uint8ClampedArray(2))).toThrow("Uint8ClampedArray");
    expect(() => tensor("text" as unknown as Float32Array)).toThrow(TypeError);
    expect(() => fromBytes(new Uint8Array(7), [2], "float32")).toThrow("expected 2 elements");
  });
});

describe("write", () => {
  it("overwrites a tensor in place", () =>
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

  it("rejects an array of another type or size, and a tensor that is not contiguous", () =>
    scope(() => {
      expect(() => zeros([2]).write(new Int32Array(2))).toThrow("cannot fill a tensor of type Float");
      expect(() => zeros([2], { dtype: "int64" }).write(new Float32Array(2))).toThrow(
        "cannot fill a tensor of type Long",
      );
      expect(() => zeros([2]).write(new Float32Array(3))).toThrow(
        "expected 8 bytes for that shape and type, received 12",
      );
      expect(() => zeros([2, 3]).t().write(new Float32Array(6))).toThrow("expected a contiguous CPU tensor");
      expect(() => zeros([2]).write(new DataView(new ArrayBuffer(8)))).toThrow("expected a typed array");
    }));
});

describe("the memory of a tensor", () => {
  it("is aligned to 64 bytes for any size", () =>
    scope(() => {
      for (const size of [1, 3, 17, 1000, 65_537, 1_500_001]) {
        expect(native().address(tensor(new Float32Array(size)).handle) % 64).toBe(0);
        expect(native().address(fromBytes(new Uint8Array(2 * size), [size], "float16", "float32").handle) % 64).toBe(0);
        expect(native().address(empty([size]).handle) % 64).toBe(0);
      }
    }));
});

describe("factories", () => {
  it("fill with the right values in the given dtype", () =>
    scope(() => {
      expect([...ones([2]).toFloat32Array()]).toEqual([1, 1]);
      expect([...full([2], 2.5).toFloat32Array()]).toEqual([2.5, 2.5]);
      expect([...arange(3).toInt32Array()]).toEqual([0, 1, 2]);
      for (const dtype of Object.keys(dtypeCodes) as DType[]) expect(zeros([1], { dtype }).dtype).toBe(dtype);
    }));

  it("an integer factor keeps an integer tensor an integer tensor; a fraction does not", () =>
    scope(() => {
      expect(arange(3).mul(2).dtype).toBe("int64");
      expect(arange(3).mul(0.5).dtype).toBe("float32");
    }));
});

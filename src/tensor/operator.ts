import { type NativeOperator, native } from "./native.js";
import { Tensor } from "./tensor.js";

function qualifyName(name: string): string {
  return name.includes("::") ? name : `aten::${name}`;
}

function toNative(value: unknown): unknown {
  if (value instanceof Tensor) return value.handle;
  if (Array.isArray(value) && value.length > 0 && typeof value[0] === "object") return value.map(toNative);
  return value;
}

function fromNative(kind: string | undefined, value: unknown): unknown {
  if (value === null || value === undefined || kind === "V") return value;
  if (kind === "L") return (value as number[]).map((handle) => new Tensor(handle));
  return new Tensor(value as number);
}

/**
 * A typed function for an operator of ATen, or of the library that its name begins with (mkldnn::…). The operator is looked up at its first call, so one that an older libtorch lacks is
 * missed only by those who use it. Operators that write their first argument return nothing.
 */
export function operator<F extends (...args: never[]) => unknown>(name: string, overload = ""): F {
  let found: NativeOperator | undefined;
  const call = (...args: unknown[]): unknown => {
    found ??= native().op(qualifyName(name), overload);
    for (let i = 0; i < args.length; i++) args[i] = toNative(args[i]);
    const result = found(...args);
    const kinds = found.returns;
    if (kinds === "T") return new Tensor(result as number);
    if (kinds.length < 2) return fromNative(kinds, result);
    return (result as unknown[]).map((item, i) => fromNative(kinds[i], item));
  };
  return call as unknown as F;
}

const operatorAvailability = new Map<string, boolean>();

/** Whether this libtorch has the operator. */
export function hasOperator(name: string, overload = ""): boolean {
  const key = `${name}.${overload}`;
  let there = operatorAvailability.get(key);
  if (there === undefined) {
    try {
      native().op(qualifyName(name), overload);
      there = true;
    } catch {
      there = false;
    }
    operatorAvailability.set(key, there);
  }
  return there;
}

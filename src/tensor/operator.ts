import { type NativeOperator, native } from "./native.js";

/** The class of tensors. tensor.ts registers it, because its methods call operators. */
let Tensor: new (handle: number) => { readonly handle: number };

export function registerTensorClass(tensorClass: typeof Tensor): void {
  Tensor = tensorClass;
}

function findOperator(name: string, overload: string): NativeOperator {
  return native().op(name.includes("::") ? name : `aten::${name}`, overload);
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

export interface OperatorCall {
  /** The name with its overload: `add.Tensor`, `linear`. */
  readonly operator: string;
  readonly args: readonly unknown[];
  readonly result: unknown;
}

let listener: ((call: OperatorCall) => void) | null = null;

/** Calls `listen` after each call of an operator while `body` runs. */
export function listenToOperators<T>(listen: (call: OperatorCall) => void, body: () => T): T {
  const outer = listener;
  listener = listen;
  try {
    return body();
  } finally {
    listener = outer;
  }
}

function invoke(found: NativeOperator, args: unknown[]): unknown {
  for (let i = 0; i < args.length; i++) args[i] = toNative(args[i]);
  const result = found(...args);
  const kinds = found.returns;
  if (kinds === "T") return new Tensor(result as number);
  if (kinds.length < 2) return fromNative(kinds, result);
  return (result as unknown[]).map((item, i) => fromNative(kinds[i], item));
}

/**
 * Returns a typed function for a libtorch operator. The name may carry a namespace (`mkldnn::…`);
 * the default is `aten`. The lookup happens on the first call, so an operator that a build lacks fails
 * only when it is used. Operators that write into their first argument return
 * nothing.
 *
 * @example
 * const cumsum = operator<(self: Tensor, dim: number) => Tensor>("cumsum");
 */
export function operator<F extends (...args: never[]) => unknown>(name: string, overload = ""): F {
  let found: NativeOperator | undefined;
  const call = (...args: unknown[]): unknown => {
    found ??= findOperator(name, overload);
    if (!listener) return invoke(found, args);
    const received = args.slice();
    const result = invoke(found, args);
    listener({ operator: overload === "" ? name : `${name}.${overload}`, args: received, result });
    return result;
  };
  return call as unknown as F;
}

const available = new Map<string, boolean>();

/** Returns true if this addon has an operator. A build without CUDA lacks those of a GPU. */
export function hasOperator(name: string, overload = ""): boolean {
  const key = `${name}.${overload}`;
  let found = available.get(key);
  if (found === undefined) {
    try {
      findOperator(name, overload);
      found = true;
    } catch {
      found = false;
    }
    available.set(key, found);
  }
  return found;
}

import { native } from "./native.js";
import type { Tensor } from "./tensor.js";

// Finalizers cannot manage tensor memory (a synchronous loop never lets them run), so every tensor belongs to the scope that made it.
const scopes: Tensor[][] = [];

/** Called for each new tensor: the innermost open scope owns it. Outside any scope it lives until `free`. */
export function registerInScope(tensor: Tensor): void {
  scopes[scopes.length - 1]?.push(tensor);
}

/** Calls `found` for every tensor inside arrays, maps and plain objects. */
export function visitTensors(value: unknown, found: (tensor: Tensor) => void): void {
  if (value === null || typeof value !== "object") return;
  if ("handle" in value && "detach" in value) found(value as Tensor);
  else if (Array.isArray(value)) for (const item of value) visitTensors(item, found);
  else if (value instanceof Map) for (const item of value.values()) visitTensors(item, found);
  else if (Object.getPrototypeOf(value) === Object.prototype)
    for (const item of Object.values(value)) visitTensors(item, found);
}

/**
 * Runs `body` and frees every tensor made inside it, except those it returns (in arrays, maps and plain objects too), which
 * pass to the scope around. Synchronous bodies only: an interleaved scope would own another's tensors.
 */
export function scope<T>(body: () => T): T {
  const made: Tensor[] = [];
  const depth = scopes.push(made);
  let result: T | undefined;
  try {
    result = body();
    if (result instanceof Promise)
      throw new TypeError("scope() takes a synchronous body: an asynchronous one would free tensors of others");
    return result;
  } finally {
    scopes.length = depth - 1;
    const returned = new Set<Tensor>();
    visitTensors(result, (tensor) => returned.add(tensor));
    const dead: Tensor[] = [];
    for (const tensor of made) {
      if (tensor.kept || tensor.handle === 0) continue;
      if (returned.has(tensor)) registerInScope(tensor);
      else dead.push(tensor);
    }
    release(dead);
  }
}

/** Takes a tensor (or all inside a value) out of its scope: it lives until `free`. */
export function keep<T>(value: T): T {
  visitTensors(value, (tensor) => {
    tensor.kept = true;
  });
  return value;
}

/** Frees a tensor, or all inside a value, now. What backward still needs of it stays alive in the graph. */
export function free(value: unknown): void {
  const dead: Tensor[] = [];
  visitTensors(value, (tensor) => {
    if (tensor.handle !== 0) dead.push(tensor);
  });
  release(dead);
}

function release(tensors: readonly Tensor[]): void {
  if (tensors.length === 0) return;
  const handles = tensors.map((tensor) => tensor.handle);
  for (const tensor of tensors) tensor.handle = 0;
  native().release(handles);
}

import { native } from "./native.js";

interface TensorHandle {
  handle: number;
  kept: boolean;
}

// Finalizers cannot manage tensor memory, because they never run during a synchronous loop. So
// every tensor belongs to the scope that created it.
const scopes: TensorHandle[][] = [];

/** Adds a new tensor to the innermost open scope. Outside any scope it lives until `free`. */
export function registerInScope(tensor: TensorHandle): void {
  scopes[scopes.length - 1]?.push(tensor);
}

function visitTensors(value: unknown, visit: (tensor: TensorHandle) => void): void {
  if (value === null || typeof value !== "object") return;
  if ("handle" in value && "kept" in value) visit(value as TensorHandle);
  else if (Array.isArray(value)) for (const item of value) visitTensors(item, visit);
  else if (value instanceof Map) for (const item of value.values()) visitTensors(item, visit);
  else if (Object.getPrototypeOf(value) === Object.prototype)
    for (const item of Object.values(value)) visitTensors(item, visit);
}

/**
 * Runs `body` and frees every tensor created inside it, except those that it returns (also in
 * arrays, maps and plain objects). Those move to the outer scope. The body must be synchronous,
 * because interleaved scopes would own each other's tensors.
 *
 * @example
 * const norm = scope(() => x.square().sum().sqrt()); // frees the square and the sum
 */
export function scope<T>(body: () => T): T {
  const created: TensorHandle[] = [];
  const depth = scopes.push(created);
  let result: T | undefined;
  try {
    result = body();
    if (result instanceof Promise)
      throw new TypeError("scope() expects a synchronous function. An async one would free tensors of other scopes.");
    return result;
  } finally {
    scopes.length = depth - 1;
    const returned = new Set<TensorHandle>();
    visitTensors(result, (tensor) => returned.add(tensor));
    const unused: TensorHandle[] = [];
    for (const tensor of created) {
      if (tensor.kept || tensor.handle === 0) continue;
      if (returned.has(tensor)) registerInScope(tensor);
      else unused.push(tensor);
    }
    release(unused);
  }
}

/** Removes a tensor, or all tensors in a value, from their scope. They live until `free`. */
export function keep<T>(value: T): T {
  visitTensors(value, (tensor) => {
    tensor.kept = true;
  });
  return value;
}

/** Frees a tensor, or all tensors in a value. Data that backward still needs stays in the graph. */
export function free(value: unknown): void {
  const live: TensorHandle[] = [];
  visitTensors(value, (tensor) => {
    if (tensor.handle !== 0) live.push(tensor);
  });
  release(live);
}

function release(tensors: readonly TensorHandle[]): void {
  if (tensors.length === 0) return;
  const handles = tensors.map((tensor) => tensor.handle);
  for (const tensor of tensors) tensor.handle = 0;
  native().release(handles);
}

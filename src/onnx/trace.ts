import { listenToOperators, noGrad, type OperatorCall, scope, Tensor } from "../tensor/index.js";
import { type BatchShape, fitSize } from "./size.js";

/** One operator of a traced function. Arguments are tensors, numbers, names, null or lists. */
export interface TracedCall {
  readonly operator: string;
  readonly args: readonly unknown[];
  readonly results: readonly Tensor[];
}

/** The operators of a function from its inputs to its output. */
export interface Trace {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly output: Tensor;
  readonly calls: readonly TracedCall[];
}

function traceOnce(inputs: ReadonlyMap<string, Tensor>, compute: () => Tensor): Trace {
  const calls: TracedCall[] = [];
  const record = ({ operator, args, result }: OperatorCall): void => {
    const results = [result].flat().filter((item): item is Tensor => item instanceof Tensor);
    // Reading the shape stores it, so that it is known after the tensor is freed.
    for (const tensor of results) void tensor.shape;
    calls.push({ operator, args, results });
  };
  const output = listenToOperators(record, () => noGrad(compute));
  return { inputs, output, calls };
}

/** Records a function at several batch sizes. Numbers that differ become functions of them. */
export function trace(
  shapes: readonly BatchShape[],
  createInputs: (shape: BatchShape) => ReadonlyMap<string, Tensor>,
  compute: (inputs: ReadonlyMap<string, Tensor>) => Tensor,
): Trace {
  return scope(() => {
    const traces = shapes.map((shape) => {
      const inputs = createInputs(shape);
      return traceOnce(inputs, () => compute(inputs));
    });
    const [first] = traces as [Trace];
    const lists = traces.map(({ calls }) => calls.map(({ operator }) => operator).join(" "));
    if (lists.some((list) => list !== lists[0]))
      throw new Error("the operators of the model depend on the size of the batch");
    const calls = first.calls.map((call, index) => {
      const versions = traces.map((each) => each.calls[index]!.args);
      return {
        ...call,
        args: call.args.map((_, i) =>
          generalize(
            versions.map((args) => args[i]),
            shapes,
            call,
          ),
        ),
      };
    });
    return { ...first, calls };
  });
}

function generalize(values: readonly unknown[], shapes: readonly BatchShape[], { operator }: TracedCall): unknown {
  const [first] = values;
  if (first instanceof Tensor) return first;
  if (Array.isArray(first)) {
    const lists = values as (readonly unknown[])[];
    return first.map((_, i) =>
      generalize(
        lists.map((list) => list[i]),
        shapes,
        { operator } as TracedCall,
      ),
    );
  }
  const isNumeric = values.every((value): value is number => typeof value === "number");
  const size = isNumeric ? fitSize(values, shapes) : values.every((value) => value === first) ? first : null;
  if (isNumeric && size === null)
    throw new Error(`${operator}: the argument ${values.join(", ")} is not a linear function of the batch`);
  return size;
}

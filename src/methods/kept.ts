import { bernoulli_, dropoutMask, emptyLike, noGrad, scope, type Tensor } from "../tensor/index.js";

/** True for about this part (in (0, 1]) of a tensor's elements, drawn from its device's generator. */
export function drawKept(like: Tensor, part: number): Tensor {
  return noGrad(() =>
    scope(() => {
      // On a CPU libtorch draws with one thread, a number at a time.
      if (like.device === "cpu") return dropoutMask(like.shape, 1 - part, "float32").to("bool");
      const drawn = emptyLike(like.detach());
      bernoulli_(drawn, part);
      return drawn.to("bool");
    }),
  );
}

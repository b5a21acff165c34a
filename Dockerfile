# A CPU image that serves a model: docker build -t temper . && docker run -p 8080:8080 -e TEMPER_API_KEY -v $PWD/runs:/runs temper \
#   serve /runs/ascc --host 0.0.0.0 --api-key env:TEMPER_API_KEY
FROM node:20-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends cmake g++ make python3 python3-venv \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /temper
COPY . .
RUN make setup && npm prune --omit=dev

FROM node:20-bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /temper /temper
USER node
WORKDIR /work
EXPOSE 8080
ENTRYPOINT ["node", "/temper/dist/cli/main.js"]
CMD ["doctor"]

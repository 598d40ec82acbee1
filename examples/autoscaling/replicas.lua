-- What a netalytics action has in Redis, for nginx: a worker looks ten times a second, and requests are shared by the servers that have
-- their page. When Redis is away what was read last goes on.
local balancer = require "ngx.balancer"

local M = {}
local servers, replicas, turn = {}, {}, 0

-- One answer, whatever Redis answers.
local function read(socket)
  local line, why = socket:receive()
  if not line then return nil, why end
  local kind, rest = line:sub(1, 1), line:sub(2)
  if kind == "-" then return nil, rest end
  if kind == "+" then return rest end
  if kind == ":" then return tonumber(rest) end
  local n = tonumber(rest)
  if kind == "$" then
    if n < 0 then return false end
    local text = socket:receive(n)
    socket:receive(2)
    return text
  end
  local all = {}
  for i = 1, n do all[i] = read(socket) end
  return all
end

local function look(host, port, key)
  local socket = ngx.socket.tcp()
  socket:settimeout(1000)
  local ok, why = socket:connect(host, port)
  if not ok then return why end
  -- Both as they were at one time.
  socket:send("MULTI\r\nLRANGE " .. key .. ":servers 0 -1\r\nHGETALL " .. key .. ":replicas\r\nEXEC\r\n")
  local answers
  for _ = 1, 4 do
    answers, why = read(socket)
    if not answers then return why end
  end
  socket:setkeepalive(10000, 1)
  local known = {}
  for i = 1, #answers[2], 2 do known[answers[2][i]] = tonumber(answers[2][i + 1]) end
  -- A Redis that has lost everything is told again within ten seconds: until then what was read last goes on.
  if #answers[1] > 0 then servers, replicas = answers[1], known end
end

function M.follow(host, port, key)
  local function again(over)
    if over then return end
    local why = look(host, port, key)
    if why then ngx.log(ngx.WARN, "what Redis says of replicas is not known: ", why) end
    ngx.timer.at(0.1, again)
  end
  ngx.timer.at(0, again)
end

function M.choose(uri)
  local n = math.min(replicas[uri] or 1, #servers)
  if n == 0 then return ngx.exit(503) end
  turn = turn + 1
  assert(balancer.set_current_peer(servers[turn % n + 1], 80))
end

return M

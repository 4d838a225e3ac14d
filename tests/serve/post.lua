-- SPDX-License-Identifier: MIT
-- POST for wrk: wrk -s post.lua URL -- DIRECTORY PATH
-- DIRECTORY has the requests' bodies N.request and, as N.response, the bytes they were answered with
-- when nothing else was asked. Every response must be one of them.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

local function read(path)
    local file = io.open(path, "rb")
    local bytes = file and file:read("*a")
    if file then file:close() end
    return bytes
end

function init(arguments)
    wrong, right, turn = 0, 0, 0
    requests, responses = {}, {}
    local n = 0
    while read(arguments[1] .. "/" .. n .. ".request") do
        local body = read(arguments[1] .. "/" .. n .. ".request")
        requests[n] = wrk.format("POST", arguments[2], {["Content-Type"] = "application/json"}, body)
        responses[read(arguments[1] .. "/" .. n .. ".response")] = true
        n = n + 1
    end
    count = n
end

function request()
    turn = turn + 1
    return requests[turn % count]
end

function response(status, headers, body)
    if status == 200 and responses[body] then right = right + 1 else wrong = wrong + 1 end
end

function done(summary, latency, requests)
    local right, wrong = 0, 0
    for _, thread in ipairs(threads) do
        right = right + thread:get("right")
        wrong = wrong + thread:get("wrong")
    end
    io.write(string.format("answers: %d right, %d wrong\n", right, wrong))
end

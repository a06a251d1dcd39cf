// Boost.Geometry's R-tree as a peer of `mqloom bench match`: closed boxes of four integer dimensions, asked by points.
//
// boost_rtree FILE reads, in 32-bit integers of this machine: how many boxes and points; for each box four lows and
// four highs; for each point four coordinates. It answers each line on standard input with a line:
//
//   (at the start)   seconds it took to build the tree
//   lap SECONDS      events matched, seconds taken, ids found; for at least so long, on from where the lap before ended
//   match NUMBER     the ids of the boxes that hold that point

#include <boost/function_output_iterator.hpp>
#include <boost/geometry.hpp>
#include <boost/geometry/index/rtree.hpp>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace bg = boost::geometry;
namespace bgi = boost::geometry::index;

using Point = bg::model::point<std::int32_t, 4, bg::cs::cartesian>;
using Box = bg::model::box<Point>;
using Entry = std::pair<Box, std::int32_t>;
// Tried at 10,000 to 100,000 boxes: with float coordinates, R* loaded in bulk was faster than R*, quadratic and linear
// filled one by one (those up to 40,000), and nodes of 16 about as fast as of 8, faster than of 32; with nodes of 16,
// int was faster than float and double.
using Tree = bgi::rtree<Entry, bgi::rstar<16>>;

// Processor time, as for the peers in Python.
static double seconds_since(std::clock_t begun) {
  return double(std::clock() - begun) / CLOCKS_PER_SEC;
}

static Point point_at(const std::int32_t* numbers) {
  Point point;
  bg::set<0>(point, numbers[0]);
  bg::set<1>(point, numbers[1]);
  bg::set<2>(point, numbers[2]);
  bg::set<3>(point, numbers[3]);
  return point;
}

static void find(const Tree& tree, const Point& point, std::vector<std::int32_t>& ids) {
  ids.clear();
  auto keep = [&ids](const Entry& entry) { ids.push_back(entry.second); };
  tree.query(bgi::intersects(point), boost::make_function_output_iterator(keep));
}

int main(int count, char** words) {
  if (count != 2) return 2;
  std::ifstream file(words[1], std::ios::binary);
  std::int32_t sizes[2] = {0, 0};
  file.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  std::vector<std::int32_t> numbers(std::size_t(sizes[0]) * 8 + std::size_t(sizes[1]) * 4);
  file.read(reinterpret_cast<char*>(numbers.data()), std::streamsize(numbers.size() * sizeof numbers[0]));
  if (!file || sizes[1] == 0) return 1;

  std::vector<Entry> entries;
  for (std::int32_t id = 0; id < sizes[0]; ++id) {
    const std::int32_t* at = numbers.data() + std::size_t(id) * 8;
    entries.emplace_back(Box(point_at(at), point_at(at + 4)), id);
  }
  std::vector<Point> points;
  for (std::int32_t number = 0; number < sizes[1]; ++number)
    points.push_back(point_at(numbers.data() + std::size_t(sizes[0]) * 8 + std::size_t(number) * 4));

  const auto built = std::clock();
  const Tree tree(entries.begin(), entries.end());
  std::cout << seconds_since(built) << std::endl;

  std::vector<std::int32_t> ids;
  std::size_t next = 0;
  std::string word;
  while (std::cin >> word) {
    if (word == "lap") {
      double wanted = 0;
      std::cin >> wanted;
      std::size_t events = 0, found = 0;
      const auto begun = std::clock();
      double taken = 0;
      do {
        for (int turn = 0; turn < 32; ++turn) {  // the clock is not for every event
          find(tree, points[next], ids);
          found += ids.size();
          ++events;
          if (++next == points.size()) next = 0;
        }
        taken = seconds_since(begun);
      } while (taken < wanted);
      std::cout << events << ' ' << taken << ' ' << found << std::endl;
    } else if (word == "match") {
      std::size_t number = 0;
      std::cin >> number;
      if (number >= points.size()) return 1;
      find(tree, points[number], ids);
      for (std::int32_t id : ids) std::cout << id << ' ';
      std::cout << std::endl;
    } else {
      return 1;
    }
  }
}

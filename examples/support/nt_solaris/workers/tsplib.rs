//! Instances of the travelling salesman's problem, in TSPLIB's format.
//!
//! A file is a list of `KEYWORD: value`, then sections of numbers, then `EOF`. Distances are given in one
//! of five orders here, all of them symmetric; coordinates are not read.

use std::fmt;
use std::io;
use std::path::Path;

/// Cities, and how far they are from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) name: String,
    cities: usize,
    /// Row by row, both halves.
    distances: Box<[u32]>,
}

/// Sets of cities are the bits of a word.
pub(crate) const MOST_CITIES: usize = 64;
/// So that twice a tour's length is a `u32`.
pub(crate) const LONGEST: u32 = 10_000_000;

impl Instance {
    /// Distances row by row, both halves.
    ///
    /// # Panics
    /// They are not those of a number of cities that there may be, or too long, or not symmetric.
    pub(crate) fn new(name: &str, cities: usize, distances: &[u32]) -> Self {
        assert!((3..=MOST_CITIES).contains(&cities) && distances.len() == cities * cities);
        assert!(distances.iter().all(|&distance| distance <= LONGEST));
        let new = Self { name: name.to_owned(), cities, distances: distances.into() };
        assert_eq!(new.asymmetry(), None);
        new
    }

    pub(crate) fn cities(&self) -> usize {
        self.cities
    }

    #[inline]
    pub(crate) fn distance(&self, from: usize, to: usize) -> u32 {
        self.distances[from * self.cities + to]
    }

    /// Of a tour, with the way home.
    pub(crate) fn length(&self, tour: &[u8]) -> u32 {
        let next = tour.iter().cycle().skip(1);
        tour.iter().zip(next).map(|(&from, &to)| self.distance(from.into(), to.into())).sum()
    }

    /// Returns `true` if each city is there once.
    pub(crate) fn is_tour(&self, tour: &[u8]) -> bool {
        let mut cities = tour.to_vec();
        cities.sort_unstable();
        cities.into_iter().map(usize::from).eq(0..self.cities)
    }

    /// Two cities that are not as far there as back.
    fn asymmetry(&self) -> Option<(usize, usize)> {
        let mut pairs = (0..self.cities).flat_map(|from| (0..from).map(move |to| (from, to)));
        pairs.find(|&(from, to)| self.distance(from, to) != self.distance(to, from))
    }
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// From one; `None`: at the end.
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => write!(f, "at the end: {}", self.what),
        }
    }
}

/// The instance that comes with this program; it is part of it, wherever it is moved.
pub(crate) fn gr17() -> Instance {
    parse(include_str!("../../../data/gr17.tsp")).expect("it is a good one")
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or is not such an instance: says what is wrong where.
pub(crate) fn read(path: &Path) -> io::Result<Instance> {
    let named = |what: &dyn fmt::Display| format!("{}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| io::Error::new(error.kind(), named(&error)))?;
    parse(&text).map_err(|flaw| io::Error::new(io::ErrorKind::InvalidData, named(&flaw)))
}

/// Reads a text.
///
/// # Errors
/// What is wrong with it, and where.
pub(crate) fn parse(text: &str) -> Result<Instance, Flaw> {
    let mut file = File::default();
    for (number, line) in (1..).zip(text.lines()) {
        let flaw = |what| Flaw { line: Some(number), what };
        if file.read(line.trim()).map_err(flaw)? == Next::End {
            break;
        }
    }
    file.finish().map_err(|what| Flaw { line: None, what })
}

/// What has been read so far.
#[derive(Default)]
struct File {
    name: String,
    cities: Option<usize>,
    explicit: bool,
    order: Option<Order>,
    section: Section,
    distances: Vec<u32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Keywords,
    Distances,
    /// Of no interest.
    Other,
}

#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

impl File {
    fn read(&mut self, line: &str) -> Result<Next, String> {
        let (keyword, value) = line.split_once(':').unwrap_or((line, ""));
        let (keyword, value) = (keyword.trim(), value.trim());
        match keyword {
            "" => {}
            "EOF" => return Ok(Next::End),
            "NAME" => self.name = value.to_owned(),
            "TYPE" => require(keyword, value, "TSP")?,
            "DIMENSION" => self.cities = Some(dimension(value)?),
            "EDGE_WEIGHT_TYPE" => {
                require(keyword, value, "EXPLICIT")?;
                self.explicit = true;
            }
            "EDGE_WEIGHT_FORMAT" => self.order = Some(Order::of(value)?),
            "EDGE_WEIGHT_SECTION" => {
                self.cities.ok_or("the distances come before DIMENSION")?;
                self.order.ok_or("the distances come before EDGE_WEIGHT_FORMAT")?;
                self.section = Section::Distances;
            }
            _ if keyword.ends_with("_SECTION") => self.section = Section::Other,
            _ if line.contains(':') => {}
            _ => match self.section {
                Section::Distances => self.read_distances(line)?,
                Section::Other => {}
                Section::Keywords => return Err(format!("{line:?} is neither a keyword nor in a section")),
            },
        }
        Ok(Next::Line)
    }

    fn read_distances(&mut self, line: &str) -> Result<(), String> {
        for word in line.split_ascii_whitespace() {
            let distance = word.parse().ok().filter(|&distance| distance <= LONGEST);
            self.distances
                .push(distance.ok_or_else(|| format!("{word:?} is no distance from 0 to {LONGEST}"))?);
        }
        Ok(())
    }

    fn finish(self) -> Result<Instance, String> {
        let cities = self.cities.ok_or("no DIMENSION")?;
        if !self.explicit {
            return Err("no EDGE_WEIGHT_TYPE".into());
        }
        let order = self.order.ok_or("no EDGE_WEIGHT_FORMAT")?;
        let places: Vec<_> =
            (0..cities).flat_map(|row| order.columns(row, cities).map(move |c| (row, c))).collect();
        if places.len() != self.distances.len() {
            let (found, due) = (self.distances.len(), places.len());
            return Err(format!("{found} distances; {cities} cities have {due} in this format"));
        }
        let mut distances = vec![0; cities * cities].into_boxed_slice();
        for ((row, column), distance) in places.into_iter().zip(self.distances) {
            distances[row * cities + column] = distance;
            if order != Order::Full {
                distances[column * cities + row] = distance;
            }
        }
        let instance = Instance { name: self.name, cities, distances };
        match instance.asymmetry() {
            Some((from, to)) => Err(format!(
                "from {from} to {to} it is {}, back {}: only symmetric distances are solved",
                instance.distance(from, to),
                instance.distance(to, from)
            )),
            None => Ok(instance),
        }
    }
}

/// In which order distances are given: which columns of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Full,
    Lower { diagonal: bool },
    Upper { diagonal: bool },
}

impl Order {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "FULL_MATRIX" => Self::Full,
            "LOWER_ROW" => Self::Lower { diagonal: false },
            "LOWER_DIAG_ROW" => Self::Lower { diagonal: true },
            "UPPER_ROW" => Self::Upper { diagonal: false },
            "UPPER_DIAG_ROW" => Self::Upper { diagonal: true },
            _ => return Err(format!("EDGE_WEIGHT_FORMAT {name:?} is not read here")),
        })
    }

    fn columns(self, row: usize, cities: usize) -> std::ops::Range<usize> {
        match self {
            Self::Full => 0..cities,
            Self::Lower { diagonal } => 0..row + usize::from(diagonal),
            Self::Upper { diagonal } => row + usize::from(!diagonal)..cities,
        }
    }
}

fn require(keyword: &str, value: &str, known: &str) -> Result<(), String> {
    if value == known { Ok(()) } else { Err(format!("{keyword} {value:?}: only {known} is read here")) }
}

fn dimension(value: &str) -> Result<usize, String> {
    let cities = value.parse().ok().filter(|cities| (3..=MOST_CITIES).contains(cities));
    cities.ok_or_else(|| format!("DIMENSION {value:?} is no number from 3 to {MOST_CITIES}"))
}
